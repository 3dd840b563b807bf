// Optimized copies of templates that the commands use most (see meson.build).
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::vector<std::string>;
