// Writes heaptrack files that are difficult to read, and the expected output of heaptrack_print for each, for
// heaptrack_consumer_test.py. The expectations are computed from a list of the events by heaptrack's definitions, not
// by the code of the writer.
//
//   heaptrack_samples DIRECTORY      writes DIRECTORY/*.heaptrack[.gz|.zst] and DIRECTORY/expected.json
//
// Strings in expected.json represent bytes: each byte is the code point with the same number.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analyzer/export/heaptrack_writer.h"
#include "tests/support/seed.h"

using namespace heapprof::exporter;

namespace {

struct Frame {
  std::string function, file;
  std::uint32_t line = 0;
};
struct Instruction {
  std::uint64_t address;
  std::string module;
  std::vector<Frame> frames;  // innermost first
};
struct Event {
  char letter;         // + - c R
  std::uint64_t size;  // or time in ns, or resident bytes
  std::uint32_t node;
};
struct Sample {
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<HeaptrackStacks::Node> tree;
  std::vector<Event> events;
  std::uint64_t end_ns = 1'000'000'000;
  std::uint64_t end_resident = 8 << 20;
};

std::string as_code_points(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xc0 | byte >> 6);
      out += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

bool is_operator_new(const std::string& name) {
  return name == "operator new(unsigned long)" || name == "operator new[](unsigned long)" ||
         name == "operator new(unsigned int)" || name == "operator new[](unsigned int)";
}

/// The line of a flame graph as heaptrack_print -F writes it.
std::string flame_line(const Sample& sample, std::uint32_t node) {
  std::vector<std::string> innermost_first;
  while (node != HeaptrackStacks::kNoParent) {
    const std::uint32_t ip = sample.tree[node].ip;
    node = sample.tree[node].parent;
    if (ip == HeaptrackStacks::kNoIp) continue;
    const Instruction& at = sample.instructions[ip];
    if (!at.frames.empty() && is_operator_new(at.frames[0].function)) continue;
    std::string text;
    if (at.frames.empty()) {
      char address[32];
      std::snprintf(address, sizeof address, "0x%llx;", static_cast<unsigned long long>(at.address));
      text = address;
    }
    for (const Frame& frame : at.frames) {
      text += frame.function;
      // heaptrack_print leaves out the missing file of an innermost function only.
      if (&frame != &at.frames[0] || !frame.file.empty())
        text += " (" + frame.file.substr(frame.file.rfind('/') + 1) + ")";
      text += ";";
    }
    for (char& c : text)
      if (c == '\n' || c == '\r') c = ' ';
    innermost_first.push_back(text);
    if (!at.frames.empty() && at.frames[0].function == "main") break;  // readers stop at main
  }
  std::string line;
  for (std::size_t i = innermost_first.size(); i-- > 0;) line += innermost_first[i];
  return line.empty() ? "??" : line;
}

nlohmann::json expect(const Sample& sample, const std::string& file) {
  struct Figures {
    std::uint64_t allocations = 0, temporary = 0, leaked = 0, peak = 0;
  };
  std::map<std::uint64_t, std::uint64_t> histogram;
  std::map<std::pair<std::uint64_t, std::string>, std::uint32_t> class_numbers;  // by first use
  std::map<std::string, std::uint64_t> live;
  std::map<std::string, Figures> stacks;
  std::map<std::string, std::uint64_t> at_peak;
  std::uint64_t calls = 0, temporary = 0, total = 0, peak = 0, resident = sample.end_resident, time_ms = 0;
  std::uint32_t latest = 0;
  for (const Event& event : sample.events) {
    const std::string stack = event.letter == '+' || event.letter == '-' ? flame_line(sample, event.node) : "";
    // Different stacks can have equal text, so classes are by node.
    const auto key = std::pair(event.size, std::to_string(event.node));
    switch (event.letter) {
      case '+': {
        const auto number =
            class_numbers.try_emplace(key, static_cast<std::uint32_t>(class_numbers.size())).first->second;
        ++calls;
        ++histogram[event.size];
        ++stacks[stack].allocations;
        live[stack] += event.size;
        total += event.size;
        latest = number;
        if (total > peak) {
          peak = total;
          at_peak = live;
        }
        break;
      }
      case '-': {
        const bool counts = latest == class_numbers.at(key);
        temporary += counts;
        stacks[stack].temporary += counts;
        live[stack] -= event.size;
        total -= event.size;
        latest = 0;
        break;
      }
      case 'c': time_ms = event.size / 1'000'000; break;
      case 'R': resident = std::max(resident, event.size); break;
      default: break;
    }
  }
  nlohmann::json lines = nlohmann::json::object();
  for (const auto& [stack, figures] : stacks) {
    lines[as_code_points(stack)] = {{"allocations", figures.allocations},
                                    {"temporary", figures.temporary},
                                    {"leaked", live[stack]},
                                    {"peak", at_peak.count(stack) ? at_peak[stack] : 0}};
  }
  nlohmann::json sizes = nlohmann::json::object();
  for (const auto& [size, count] : histogram) sizes[std::to_string(size)] = count;
  return {{"file", file},
          {"calls", calls},
          {"temporary", temporary},
          {"leaked", total},
          {"peak", peak},
          {"resident", resident / 4096 * 4096},
          {"run_ms", std::max(time_ms, sample.end_ns / 1'000'000) + 1},
          {"histogram", sizes},
          {"stacks", lines}};
}

bool write(const Sample& sample, const std::string& path, nlohmann::json& expected) {
  Sink output(path);
  HeaptrackWriter writer(
      output,
      {.command = "./sample " + sample.name + " --flag=a;b #c", .page_bytes = 4096, .physical_pages = 1 << 20});
  std::vector<HeaptrackFrame> views;
  HeaptrackStacks stacks(writer, sample.tree, [&](std::uint32_t ip) {
    const Instruction& at = sample.instructions[ip];
    views.clear();
    for (const Frame& frame : at.frames) views.push_back({frame.function, frame.file, frame.line});
    return HeaptrackStacks::Instruction{at.address, at.module, views};
  });
  bool good = true;
  for (const Event& event : sample.events) {
    switch (event.letter) {
      case '+': writer.allocation(event.size, stacks.trace(event.node)); break;
      case '-': good &= writer.deallocation(event.size, stacks.trace(event.node)); break;
      case 'c': writer.set_time(event.size); break;
      default: writer.resident(event.size);
    }
  }
  writer.finish(sample.end_ns, sample.end_resident);
  if (!output.close()) {
    std::fprintf(stderr, "%s\n", output.error().c_str());
    return false;
  }
  // An export reports the counts of the writer, so they must be equal.
  const HeaptrackTotals& totals = writer.totals();
  if (!good || totals.calls != expected["calls"] || totals.temporary != expected["temporary"] ||
      totals.leaked_bytes != expected["leaked"] || totals.peak_bytes != expected["peak"] ||
      totals.peak_rss_bytes != expected["resident"] || totals.last_time_ms + 1 != expected["run_ms"]) {
    std::fprintf(stderr, "%s: the writer counted %llu calls, %llu temporary, %llu leaked, %llu peak; expected %s\n",
                 path.c_str(), static_cast<unsigned long long>(totals.calls),
                 static_cast<unsigned long long>(totals.temporary),
                 static_cast<unsigned long long>(totals.leaked_bytes),
                 static_cast<unsigned long long>(totals.peak_bytes), expected.dump().substr(0, 400).c_str());
    return false;
  }
  return true;
}

/// A tree of random stacks below main, through inlined frames, operator new and unresolved addresses, with
/// `name(i)` for the i-th function.
template <typename Name>
void grow_tree(Sample& sample, std::mt19937& random, std::uint32_t instructions, std::uint32_t nodes, Name&& name) {
  sample.instructions.push_back({0x401000, "/opt/demo", {{"_start", "", 0}}});
  sample.instructions.push_back({0x401100, "/opt/demo", {{"main", "/src/main.cpp", 30}}});
  sample.instructions.push_back(
      {0x7f0000001000, "/lib/libstdc++.so.6", {{"operator new(unsigned long)", "new_op.cc", 50}}});
  for (std::uint32_t i = 3; i < instructions; ++i) {
    Instruction at{0x402000 + i * 16, "/opt/demo", {}};
    const std::uint32_t frames = random() % 8 == 0 ? 0 : 1 + random() % 3;
    for (std::uint32_t k = 0; k < frames; ++k) {
      Frame frame{name(random() % instructions), "", 0};
      if (random() % 4 != 0) {
        frame.file = "/src/dir with space/file" + std::to_string(random() % 9) + ".cpp";
        frame.line = static_cast<std::uint32_t>(random() % 5000);
      }
      at.frames.push_back(frame);
    }
    sample.instructions.push_back(at);
  }
  sample.tree.push_back({HeaptrackStacks::kNoParent, 0});
  sample.tree.push_back({0, 1});
  sample.tree.push_back({HeaptrackStacks::kNoParent, HeaptrackStacks::kNoIp});  // a truncated stack
  while (sample.tree.size() < nodes) {
    const auto parent = static_cast<std::uint32_t>(1 + random() % (sample.tree.size() - 1));
    sample.tree.push_back({parent, 2 + static_cast<std::uint32_t>(random() % (instructions - 2))});
  }
}

void random_events(Sample& sample, std::mt19937& random, std::uint32_t count) {
  std::vector<Event> live;
  std::uint64_t time = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const unsigned what = random() % 100;
    if (what < 3) {
      time += random() % 12'000'000;
      // Only steps that the writer writes, which makes the expected run time simple.
      sample.events.push_back({'c', time, 0});
    } else if (what < 5) {
      sample.events.push_back({'R', (random() % 100'000) * 1000ull, 0});
    } else if (what < 58 || live.empty()) {
      const std::uint64_t size = random() % 3 == 0 ? (random() % 4) * 16 : random() % 5000;
      const auto node = static_cast<std::uint32_t>(1 + random() % (sample.tree.size() - 1));
      live.push_back({'-', size, node});
      sample.events.push_back({'+', size, node});
    } else {
      // Often the newest block, as in programs.
      const std::size_t pick = random() % 3 != 0 ? live.size() - 1 : random() % live.size();
      sample.events.push_back(live[pick]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  sample.end_ns = time + 1'000'000'000;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::printf("HEAPPROF_TEST_SEED=%llu\n", static_cast<unsigned long long>(heapprof::test::given_seed()));
  const std::string directory = argv[1];
  std::vector<std::pair<Sample, std::string>> samples;
  const auto plain_name = [](std::uint32_t i) { return "function_" + std::to_string(i) + "(int)"; };

  for (const std::uint32_t seed : {1, 2, 3}) {
    std::mt19937 random(heapprof::test::seed(seed));
    Sample sample{.name = "random" + std::to_string(seed), .instructions = {}, .tree = {}, .events = {}};
    grow_tree(sample, random, 60, 300, plain_name);
    random_events(sample, random, 20'000);
    samples.emplace_back(sample, seed == 1 ? "" : seed == 2 ? ".gz" : ".zst");
  }
  {
    std::mt19937 random(heapprof::test::seed(4));
    const std::vector<std::string> names = {"semi;colon",
                                            "#hash",
                                            "quo\"te'",
                                            "line\nfeed",
                                            "car\rriage",
                                            "tab\there",
                                            "non\xff\xfeutf8",
                                            "caf\xc3\xa9",
                                            "  spaces  ",
                                            "a<b<c>>::operator()",
                                            "x" + std::string(10'240, 'T'),
                                            "]]></script>",
                                            "%s%n",
                                            "\x01\x02",
                                            "trailing backslash\\",
                                            "operator new[](unsigned long)"};
    Sample sample{.name = "hostile", .instructions = {}, .tree = {}, .events = {}};
    grow_tree(sample, random, 60, 200, [&](std::uint32_t i) { return names[i % names.size()]; });
    random_events(sample, random, 4'000);
    samples.emplace_back(sample, ".zst");
  }
  samples.emplace_back(Sample{.name = "empty", .instructions = {}, .tree = {}, .events = {}}, ".gz");
  samples.emplace_back(Sample{.name = "huge",
                              .instructions = {{0x1000, "/bin/x", {{"main", "x.c", 1}}}},
                              .tree = {{HeaptrackStacks::kNoParent, 0}},
                              .events = {{'+', (std::uint64_t{1} << 56) - 1, 0}}},
                       ".zst");
  {
    Sample sample{.name = "deep", .instructions = {}, .tree = {}, .events = {}};
    sample.instructions.push_back({0x1000, "/bin/x", {{"main", "x.c", 1}}});
    sample.instructions.push_back({0x1010, "/bin/x", {{"recurse(int)", "x.c", 2}}});
    sample.tree.push_back({HeaptrackStacks::kNoParent, 0});
    for (std::uint32_t i = 0; i < 1023; ++i) sample.tree.push_back({i, 1});
    for (std::uint32_t i = 0; i < 1024; ++i) sample.events.push_back({'+', 1, i});
    samples.emplace_back(sample, "");
  }

  nlohmann::json expected = nlohmann::json::array();
  bool good = true;
  for (const auto& [sample, suffix] : samples) {
    const std::string file = sample.name + ".heaptrack" + suffix;
    expected.push_back(expect(sample, file));
    good &= write(sample, directory + "/" + file, expected.back());
  }
  std::ofstream(directory + "/expected.json") << expected.dump();
  return good ? 0 : 1;
}
