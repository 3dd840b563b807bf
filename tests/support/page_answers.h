// The answers that a page has which `heapprof html` wrote.
#pragma once

#include <cstddef>
#include <string>

namespace heapprof::test {

/// What the element with the answers has, as JSON; empty: there is no such element.
inline std::string answers_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"answers\">";
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t from = at + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

}  // namespace heapprof::test
