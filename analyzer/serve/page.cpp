#include "analyzer/serve/page.h"

#include <algorithm>
#include <iterator>

#include "analyzer/page_assets.h"

namespace heapprof::serve {
namespace {

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

/// Puts the files that index.html names into it.
Page assemble() {
  const Asset* const index = find_asset("index.html");
  std::string scripts, styles;
  Page page;
  std::string_view rest = index == nullptr ? std::string_view() : index->text;
  while (!rest.empty()) {
    const std::size_t begin = std::min(rest.find('<'), rest.size());
    page.text += rest.substr(0, begin);
    rest.remove_prefix(begin);
    const std::size_t end = rest.find('>');
    if (end == std::string_view::npos) break;
    const std::string_view tag = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    const bool is_style = tag.starts_with("<link ");
    const Asset* const asset = find_asset(attribute(tag, is_style ? "href" : "src"));
    if (asset == nullptr) {
      page.text += tag;
      continue;
    }
    const std::string_view id = attribute(tag, "id");
    if (!id.empty()) {
      // Data. It is no script to the browser, so it needs no hash.
      page.text += "<script type=\"application/json\" id=\"" + std::string(id) + "\">";
    } else {
      page.text += is_style ? "<style>" : "<script>";
      (is_style ? styles : scripts) += " '" + std::string(asset->hash) + "'";
    }
    page.text += asset->text;
    if (is_style) page.text += "</style>";  // that of a script follows
  }
  page.text += rest;
  page.sources = "script-src" + scripts + "; style-src" + styles;
  return page;
}

}  // namespace

const Asset* find_asset(std::string_view name) {
  const auto found = std::find_if(std::begin(kPageAssets), std::end(kPageAssets),
                                  [&](const Asset& one) { return one.name == name; });
  return found == std::end(kPageAssets) ? nullptr : found;
}

const Page& served_page() {
  static const Page page = assemble();
  return page;
}

std::string page_with_answers(std::string_view answers) {
  std::string result = served_page().text;
  std::string element = "<script type=\"application/json\" id=\"answers\">";
  element.reserve(element.size() + answers.size() + answers.size() / 4);
  // No text may end the element, or begin a comment in it. In JSON, this character is in strings only. Names of C++
  // have tens of thousands of it.
  for (const char c : answers) {
    if (c == '<') element += "\\u003c";
    else element += c;
  }
  replace(result, "<!-- answers -->", element + "</script>");
  replace(result, "<meta charset=\"utf-8\">",
          "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; " +
              served_page().sources + "; img-src data:; base-uri 'none'; form-action 'none'\">");
  return result;
}

}  // namespace heapprof::serve
