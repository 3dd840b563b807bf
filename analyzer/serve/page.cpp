#include "analyzer/serve/page.h"

#include <algorithm>
#include <iterator>

#include "analyzer/page_assets.h"

namespace heapprof::serve {
namespace {

constexpr std::string_view kDataInline = "<script type=\"application/json\" id=\"questions\" data-inline src=";

/// Puts the questions into the page: a block of data cannot be loaded by its address.
std::string with_questions(std::string page) {
  const Asset* const questions = find_asset("questions.json");
  const std::size_t begin = page.find(kDataInline);
  if (questions == nullptr || begin == std::string::npos) return page;
  const std::size_t end = page.find('>', begin);
  if (end == std::string::npos) return page;
  return page.replace(begin, end + 1 - begin,
                      "<script type=\"application/json\" id=\"questions\">" + std::string(questions->text));
}

/// The value of an attribute in the text of a tag; empty: it has none.
std::string_view attribute(std::string_view tag, std::string_view name) {
  const std::string begin = " " + std::string(name) + "=\"";
  const std::size_t at = tag.find(begin);
  if (at == std::string_view::npos) return {};
  tag.remove_prefix(at + begin.size());
  return tag.substr(0, tag.find('"'));
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  if (const std::size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), by);
}

}  // namespace

const Asset* find_asset(std::string_view name) {
  const auto found = std::find_if(std::begin(kPageAssets), std::end(kPageAssets),
                                  [&](const Asset& one) { return one.name == name; });
  return found == std::end(kPageAssets) ? nullptr : found;
}

std::string_view content_type_of(std::string_view name) {
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".json")) return "application/json";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

const std::string& served_page() {
  static const std::string page = [] {
    const Asset* const index = find_asset("index.html");
    return with_questions(index == nullptr ? std::string() : std::string(index->text));
  }();
  return page;
}

std::string self_contained_page(std::string answers) {
  std::string scripts, styles, result;
  std::string_view rest = served_page();
  while (!rest.empty()) {
    const std::size_t begin = std::min(rest.find('<'), rest.size());
    result += rest.substr(0, begin);
    rest.remove_prefix(begin);
    const std::size_t end = rest.find('>');
    if (end == std::string_view::npos) break;
    const std::string_view tag = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    const bool is_style = tag.starts_with("<link ");
    const std::string_view address = attribute(tag, is_style ? "href" : "src");
    const Asset* const asset = address.starts_with('/') ? find_asset(address.substr(1)) : nullptr;
    if (tag.find(" data-inline") == std::string_view::npos || asset == nullptr) {
      result += tag;
      continue;
    }
    (is_style ? styles : scripts) += " '" + std::string(asset->hash) + "'";
    result += (is_style ? "<style>" : "<script>") + std::string(asset->text);
    if (is_style) result += "</style>";  // that of a script follows
  }
  result += rest;
  // No text may end the element, or begin a comment in it. In JSON, this character is in strings only.
  for (std::size_t at = 0; (at = answers.find('<', at)) != std::string::npos;) answers.replace(at, 1, "\\u003c");
  replace(result, "<!-- answers -->", "<script type=\"application/json\" id=\"answers\">" + answers + "</script>");
  replace(result, "<meta charset=\"utf-8\">",
          "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "script-src" +
              (scripts.empty() ? " 'none'" : scripts) + "; style-src" + (styles.empty() ? " 'none'" : styles) +
              "; img-src data:; base-uri 'none'; form-action 'none'\">");
  return result;
}

}  // namespace heapprof::serve
