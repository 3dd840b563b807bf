// Reads a stream of documents one after the other, and counts their entries.
#include "yaml.h"
#include <fstream>
#include <iostream>

int main(int, char** arguments) {
  std::ifstream file(arguments[1]);
  YAML::Parser parser(file);
  std::size_t entries = 0;
  while (true) {
    YAML::Node document;
    if (!parser.GetNextDocument(document)) break;
    entries += document.size();
  }
  std::cout << entries << '\n';
}
