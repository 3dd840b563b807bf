// The parts of an HTTP request that come from the client as text: the target of the request line, and cookies.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heapprof::serve {

/// One NAME=VALUE of a query, decoded. A name without "=" has an empty value.
struct Parameter {
  std::string name;
  std::string value;
};
using Parameters = std::vector<Parameter>;

struct Target {
  std::string path;  ///< decoded; begins with "/"
  Parameters parameters;
};

/// Parses "/path?name=value&...": %XX is decoded, and "+" in the query is a space. nullopt: no path, an escape that
/// is not %XX, or a control character, decoded or not.
std::optional<Target> parse_target(std::string_view target);

/// The value of a cookie in the header "Cookie"; empty: it is not there.
std::string_view cookie_value(std::string_view header, std::string_view name);

/// The value of the first parameter of that name; nullptr: there is none.
const std::string* find(const Parameters& parameters, std::string_view name);

}  // namespace heapprof::serve
