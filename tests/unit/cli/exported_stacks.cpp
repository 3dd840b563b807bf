#include "tests/unit/cli/exported_stacks.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "analyzer/base/base_name.h"
#include "tests/unit/cli/command_run.h"

namespace heapprof::test {

namespace {

std::string frame_text(const std::string& function, const std::string& file, std::uint64_t line) {
  if (file.empty()) return function;
  return function + " (" + base_name(file) + (line == 0 ? "" : ":" + std::to_string(line)) + ")";
}

std::uint64_t read_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (data.empty()) break;
    const auto byte = static_cast<unsigned char>(data.front());
    data.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("a varint has no end");
}

/// A message of Protocol Buffers, whose fields are numbers and bytes. `data` must remain.
class Message {
 public:
  explicit Message(std::string_view data) {
    while (!data.empty()) {
      const std::uint64_t key = read_varint(data);
      const std::uint64_t value = read_varint(data);
      if ((key & 7) == 0) {
        numbers_[key >> 3] = value;
        continue;
      }
      if ((key & 7) != 2 || value > data.size()) throw std::runtime_error("a field that is neither number nor bytes");
      bytes_[key >> 3].push_back(data.substr(0, value));
      data.remove_prefix(value);
    }
  }

  std::uint64_t number(std::uint64_t field) const {
    const auto found = numbers_.find(field);
    return found == numbers_.end() ? 0 : found->second;
  }
  std::vector<std::string_view> all(std::uint64_t field) const {
    const auto found = bytes_.find(field);
    return found == bytes_.end() ? std::vector<std::string_view>{} : found->second;
  }
  std::vector<std::uint64_t> packed(std::uint64_t field) const {
    std::vector<std::uint64_t> numbers;
    for (std::string_view data : all(field))
      while (!data.empty()) numbers.push_back(read_varint(data));
    return numbers;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> numbers_;
  std::map<std::uint64_t, std::vector<std::string_view>> bytes_;
};

}  // namespace

std::string read_uncompressed(const std::string& path) {
  // zlib returns a file that is not compressed as it is.
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path + " cannot be read");
  std::string contents;
  char buffer[4096];
  int count = 0;
  while ((count = gzread(file, buffer, sizeof buffer)) > 0) contents.append(buffer, static_cast<std::size_t>(count));
  if (gzclose(file) != Z_OK || count != 0) throw std::runtime_error(path + " is damaged");
  return contents;
}

ExportedStacks stacks_of_pprof(const std::string& contents) {
  // Numbers of the fields: profile.proto.
  const Message profile(contents);
  const std::vector<std::string_view> strings = profile.all(6);
  struct Function {
    std::string name, file;
  };
  std::map<std::uint64_t, Function> functions;
  for (const std::string_view data : profile.all(5)) {
    const Message function(data);
    functions[function.number(1)] = {std::string(strings.at(function.number(2))),
                                     std::string(strings.at(function.number(4)))};
  }
  std::map<std::uint64_t, std::vector<std::string>> locations;
  for (const std::string_view data : profile.all(4)) {
    const Message location(data);
    for (const std::string_view text : location.all(4)) {
      const Message line(text);
      const Function& function = functions.at(line.number(1));
      locations[location.number(1)].push_back(frame_text(function.name, function.file, line.number(2)));
    }
  }
  std::size_t column = 0;  // of the bytes that are live
  while (strings.at(Message(profile.all(1).at(column)).number(1)) != "inuse_space") ++column;
  ExportedStacks stacks;
  for (const std::string_view data : profile.all(2)) {
    const Message sample(data);
    ExportedStack stack;
    for (const std::uint64_t location : sample.packed(1))
      stack.frames.insert(stack.frames.end(), locations.at(location).begin(), locations.at(location).end());
    stack.bytes = sample.packed(2).at(column);
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

ExportedStacks stacks_of_heaptrack(const std::string& contents) {
  struct Trace {
    std::size_t ip, parent;
  };
  std::vector<std::string> strings{""};
  std::vector<std::vector<std::string>> ips{{}};
  std::vector<Trace> traces{{0, 0}};
  std::vector<std::uint64_t> sizes;  // of the classes, whose stacks are in the result
  ExportedStacks stacks;
  std::istringstream lines(contents);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("s ", 0) == 0) {
      strings.push_back(line.substr(line.find(' ', 2) + 1));
      continue;
    }
    if (line.empty() || std::string_view("ita+-").find(line[0]) == std::string_view::npos) continue;
    std::istringstream words(line.substr(1));
    std::vector<std::size_t> numbers;
    for (std::size_t number; words >> std::hex >> number;) numbers.push_back(number);
    switch (line[0]) {
      case 'i': {  // address, module, function alone or triples of function, file and line
        std::vector<std::string> frames;
        if (numbers.size() == 3) frames.push_back(strings.at(numbers[2]));
        for (std::size_t at = 2; at + 2 < numbers.size(); at += 3)
          frames.push_back(frame_text(strings.at(numbers[at]), strings.at(numbers[at + 1]), numbers[at + 2]));
        ips.push_back(std::move(frames));
        break;
      }
      case 't': traces.push_back({numbers.at(0), numbers.at(1)}); break;
      case 'a': {
        ExportedStack stack;
        for (std::size_t trace = numbers.at(1); trace != 0; trace = traces.at(trace).parent) {
          const std::vector<std::string>& frames = ips.at(traces.at(trace).ip);
          stack.frames.insert(stack.frames.end(), frames.begin(), frames.end());
        }
        sizes.push_back(numbers.at(0));
        stacks.push_back(std::move(stack));
        break;
      }
      case '+': stacks.at(numbers.at(0)).bytes += sizes.at(numbers.at(0)); break;
      default: stacks.at(numbers.at(0)).bytes -= sizes.at(numbers.at(0)); break;
    }
  }
  return stacks;
}

ExportedStacks stacks_of_speedscope(const std::string& contents) {
  const Outcome json{0, contents, ""};
  std::vector<std::string> frames;
  for (std::size_t i = 0; i < json.count("/shared/frames"); ++i) {
    const std::string at = "/shared/frames/" + std::to_string(i);
    const std::string file = json.at(at + "/file");
    const std::uint64_t line = json.number(at + "/line");
    frames.push_back(frame_text(json.at(at + "/name"), file == "(absent)" ? "" : file, line == kNoNumber ? 0 : line));
  }
  std::size_t number = 0;
  while (json.at("/profiles/" + std::to_string(number) + "/name") != "bytes live at the end")
    if (++number == json.count("/profiles")) throw std::runtime_error("no profile of live bytes");
  const std::string profile = "/profiles/" + std::to_string(number);
  ExportedStacks stacks;
  for (std::size_t i = 0; i < json.count(profile + "/samples"); ++i) {
    const std::string sample = profile + "/samples/" + std::to_string(i);
    ExportedStack stack;
    for (std::size_t k = json.count(sample); k-- > 0;)  // outermost first
      stack.frames.push_back(frames.at(json.number(sample + "/" + std::to_string(k))));
    stack.bytes = json.number(profile + "/weights/" + std::to_string(i));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

ExportedStacks stacks_of_dhat(const std::string& contents) {
  const Outcome json{0, contents, ""};
  ExportedStacks stacks;
  for (std::size_t i = 0; i < json.count("/pps"); ++i) {
    const std::string point = "/pps/" + std::to_string(i);
    ExportedStack stack;
    for (std::size_t k = 0; k < json.count(point + "/fs"); ++k) {
      const std::string frame = json.at("/ftbl/" + json.at(point + "/fs/" + std::to_string(k)));
      stack.frames.push_back(frame.substr(frame.find(": ") + 2));  // without the address
    }
    stack.bytes = json.number(point + "/eb");
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::uint64_t bytes_with(const ExportedStacks& stacks, const std::string& frame) {
  std::uint64_t bytes = 0;
  for (const ExportedStack& stack : stacks)
    if (std::find(stack.frames.begin(), stack.frames.end(), frame) != stack.frames.end()) bytes += stack.bytes;
  return bytes;
}

std::uint64_t bytes_of(const ExportedStacks& stacks) {
  std::uint64_t bytes = 0;
  for (const ExportedStack& stack : stacks) bytes += stack.bytes;
  return bytes;
}

}  // namespace heapprof::test
