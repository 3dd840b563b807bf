#include "analyzer/serve/standing_process.h"

#include <charconv>
#include <utility>

namespace heapprof::serve {
namespace {

struct Header {
  int status = 0;
  std::size_t output_bytes = 0;
  std::size_t error_bytes = 0;
  std::size_t bytes = 0;  ///< of the header itself
};

enum class Parsed { kHeader, kIncomplete, kWrong };

/// "STATUS OUTPUT_BYTES ERROR_BYTES\n"
Parsed parse(std::string_view text, Header& header) {
  constexpr std::size_t kMaxHeader = 64;
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) return text.size() < kMaxHeader ? Parsed::kIncomplete : Parsed::kWrong;
  const char* at = text.data();
  const char* const end = at + line;
  const auto number = [&](auto& value, char separator) {
    const auto [next, failed] = std::from_chars(at, end + 1, value);
    if (failed != std::errc() || next > end || *next != separator) return false;
    at = next + 1;
    return true;
  };
  if (!number(header.status, ' ') || !number(header.output_bytes, ' ') || !number(header.error_bytes, '\n'))
    return Parsed::kWrong;
  header.bytes = line + 1;
  return Parsed::kHeader;
}

}  // namespace

std::shared_ptr<StandingProcess> StandingProcess::start(boost::asio::io_context& context,
                                                        const std::vector<std::string>& words,
                                                        const ChildLimits& limits) {
  std::shared_ptr<StandingProcess> process(new StandingProcess(context, limits));
  process->child_ = ChildProcess::start(
      context, words, {.stands = true},
      [weak = std::weak_ptr(process)](ChildResult&&) {
        if (const auto ended = weak.lock()) {
          ended->ended_ = true;
          ended->answer({});
        }
      },
      [weak = std::weak_ptr(process)](std::string_view output) {
        if (const auto alive = weak.lock()) alive->take(output);
      });
  return process;
}

void StandingProcess::ask(const std::vector<std::string>& words, Done done) {
  done_ = std::move(done);
  child_->request(words);
  timer_.expires_after(limits_.time);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
    if (const auto self = weak.lock(); self && !stopped) self->end();
  });
}

void StandingProcess::take(std::string_view output) {
  printed_ += output;
  Header header;
  const Parsed parsed = parse(printed_, header);
  if (parsed == Parsed::kIncomplete) return;
  constexpr std::size_t kMaxErrorBytes = 16 * 1024;
  if (parsed == Parsed::kWrong || header.output_bytes > limits_.output_bytes || header.error_bytes > kMaxErrorBytes)
    return end();
  if (printed_.size() - header.bytes < header.output_bytes + header.error_bytes) return;
  ChildResult result;
  result.end = ChildResult::End::kExited;
  result.code = header.status;
  result.output = printed_.substr(header.bytes, header.output_bytes);
  result.error = printed_.substr(header.bytes + header.output_bytes, header.error_bytes);
  printed_.clear();
  answer(std::move(result));
}

void StandingProcess::answer(std::optional<ChildResult>&& result) {
  timer_.cancel();
  has_answered_ = true;
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(result));
}

}  // namespace heapprof::serve
