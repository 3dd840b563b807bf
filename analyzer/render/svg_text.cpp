#include "analyzer/render/svg_text.h"

#include <cstdio>

#include "analyzer/render/escape.h"

namespace heapprof::render {

void append_number(std::string& out, double value, int decimals) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.*f", decimals, value);
  std::string_view digits(text, static_cast<std::size_t>(length));
  digits.remove_suffix(digits.size() - 1 - digits.find_last_not_of('0'));
  if (digits.ends_with('.')) digits.remove_suffix(1);
  out += digits;
}

void SvgText::attribute(const char* name, double value) {
  text_.append(" ").append(name).append("=\"");
  number(value);
  text_ += '"';
}

void SvgText::line(const char* style, double x1, double y1, double x2, double y2) {
  text_.append("<path class=\"").append(style).append("\" d=\"M");
  number(x1);
  text_ += ' ';
  number(y1);
  text_ += 'L';
  number(x2);
  text_ += ' ';
  number(y2);
  text_ += "\"/>\n";
}

void SvgText::label(double x, double y, std::string_view attributes, std::string_view label) {
  text_ += "<text x=\"";
  number(x);
  text_ += "\" y=\"";
  number(y);
  text_.append("\" ").append(attributes).append(">");
  append_xml(text_, label);
  text_ += "</text>\n";
}

}  // namespace heapprof::render
