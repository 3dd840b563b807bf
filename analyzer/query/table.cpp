#include "analyzer/query/table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sqlite3.h>

namespace heapprof::query {
namespace {

constexpr double kLimit = 9.2e18;  // beyond it a double is no std::int64_t

/// The number, rounded down or up; nullopt: the value is no number.
std::optional<std::int64_t> rounded(const Value& value, bool up) {
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return *number;
  const auto* const real = std::get_if<double>(&value);
  if (real == nullptr || std::isnan(*real)) return std::nullopt;
  if (*real > kLimit) return INT64_MAX;
  if (*real < -kLimit) return INT64_MIN;
  return static_cast<std::int64_t>(up ? std::ceil(*real) : std::floor(*real));
}

}  // namespace

void Result::number(std::uint64_t value) const {
  sqlite3_result_int64(context_, static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX)));
}

void Result::signed_number(std::int64_t value) const { sqlite3_result_int64(context_, value); }

void Result::text(std::string_view value) const {
  sqlite3_result_text64(context_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

Range range_of(std::span<const Constraint> constraints, int column) {
  Range range;
  for (const Constraint& one : constraints) {
    if (one.column != column || one.values.empty()) continue;
    if (one.op == Op::kEqual) {
      std::vector<std::int64_t> numbers;
      if (!numbers_of(std::span(&one, 1), column, numbers)) continue;
      range.low = std::max(range.low, numbers.empty() ? INT64_MAX : numbers.front());
      range.high = std::min(range.high, numbers.empty() ? INT64_MIN : numbers.back());
      continue;
    }
    // One too many does no harm.
    const bool is_upper = one.op == Op::kLess || one.op == Op::kLessEqual;
    const std::optional<std::int64_t> limit = rounded(one.values.front(), is_upper);
    if (!limit) continue;
    if (is_upper) range.high = std::min(range.high, *limit);
    else range.low = std::max(range.low, *limit);
  }
  return range;
}

bool numbers_of(std::span<const Constraint> constraints, int column, std::vector<std::int64_t>& numbers) {
  for (const Constraint& one : constraints) {
    if (one.column != column || one.op != Op::kEqual) continue;
    numbers.clear();
    bool only_numbers = true;
    for (const Value& value : one.values) {
      if (std::holds_alternative<std::monostate>(value)) continue;  // equal to nothing
      const std::optional<std::int64_t> low = rounded(value, false);
      if (!low) only_numbers = false;
      else numbers.push_back(*low);
    }
    if (!only_numbers) continue;
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return true;
  }
  return false;
}

bool can_be(std::span<const Constraint> constraints, int column, std::string_view value) {
  return std::all_of(constraints.begin(), constraints.end(), [&](const Constraint& one) {
    if (one.column != column || one.op != Op::kEqual) return true;
    return std::any_of(one.values.begin(), one.values.end(), [&](const Value& wanted) {
      const auto* const text = std::get_if<std::string>(&wanted);
      return text == nullptr || *text == value;
    });
  });
}

}  // namespace heapprof::query
