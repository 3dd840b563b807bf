#include "analyzer/cli/text/text_style.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace heapprof::cli {
namespace {

constexpr std::size_t kMinWidth = 40;
constexpr std::size_t kMaxWidth = 160;

/// COLUMNS of the environment, for output that is no terminal. 0: not set.
std::size_t requested_columns() {
  const char* const text = std::getenv("COLUMNS");
  return text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
}

}  // namespace

TextStyle style_for(const std::string& output, std::size_t frames) {
  TextStyle style;
  style.colour = wants_colour(output);
  style.frames = frames;
  style.unicode = locale_is_utf8();
  std::size_t columns = terminal_columns(output);
  if (columns == 0) columns = requested_columns();
  if (columns != 0) style.width = std::clamp(columns, kMinWidth, kMaxWidth);
  return style;
}

TextStyle style_for(const std::string& output, const ViewOptions& view, std::size_t frames) {
  TextStyle style = style_for(output, frames);
  style.full_names = view.full_names;
  return style;
}

std::string plain_text(const std::string& text, bool unicode) {
  if (unicode) return text;
  static constexpr std::pair<const char*, const char*> kPlain[] = {{"…", "..."}, {"µ", "u"}, {"–", "-"}, {"→", "->"}};
  std::string result = text;
  for (const auto& [fine, ascii] : kPlain)
    for (std::size_t at = 0; (at = result.find(fine, at)) != std::string::npos; at += std::strlen(ascii))
      result.replace(at, std::strlen(fine), ascii);
  return result;
}

bool wants_colour(const std::string& path) {
  if (path != "-" || ::isatty(STDOUT_FILENO) == 0) return false;
  const char* const no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && no_colour[0] != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
}

std::size_t terminal_columns(const std::string& path) {
  winsize size{};
  if (path != "-" || ::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return std::strstr(value, "UTF-8") != nullptr || std::strstr(value, "utf8") != nullptr ||
           std::strstr(value, "UTF8") != nullptr || std::strstr(value, "utf-8") != nullptr;
  }
  return false;
}

}  // namespace heapprof::cli
