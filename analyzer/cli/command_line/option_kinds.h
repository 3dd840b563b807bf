// Kinds of options: one function each, so that a kind has one grammar and one message everywhere. Only the files that
// declare options include this header, since it includes the parser.
//
// `names` is "-o,--output" for an option and "TRACE" for an argument; `type` names its value in the help: "TIME", or
// "FILE" and "DIRECTORY" for paths. The target must live until the parsing ends.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/cli/options/option_values.h"

namespace heapprof::cli {

/// Ends the parsing: heapprof prints `message` as it is and exits with status 2.
[[noreturn]] void refuse(const std::string& message);

/// "invalid value 'x' for --top; expected a whole number"
[[noreturn]] void refuse_value(const std::string& value, const std::string& option, const std::string& expected);

/// Whether the option was given on the command line.
bool was_given(const CLI::Option* option);

/// Calls `read` with the value that was given.
CLI::Option* add_value(CLI::App& command, const std::string& names, const std::string& type, const std::string& help,
                       std::function<void(const std::string&)> read);
CLI::Option* add_text(CLI::App& command, const std::string& names, std::string& value, const std::string& type,
                      const std::string& help);
/// An option that may be repeated; each takes one value.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& type, const std::string& help);
/// A whole number; the default is what `value` is.
CLI::Option* add_number(CLI::App& command, const std::string& names, std::size_t& value, const std::string& help);
/// A size in bytes; without a default.
CLI::Option* add_size(CLI::App& command, const std::string& names, const std::string& help,
                      std::function<void(std::uint64_t)> set);
/// One of `words`, whose position `set` gets. The default is words[chosen].
CLI::Option* add_choice(CLI::App& command, const std::string& names, const std::vector<std::string>& words,
                        std::size_t chosen, const std::string& help, std::function<void(std::size_t)> set);
/// An option without value that sets `value`; "!--no-index" clears it.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& value, const std::string& help);

template <typename Value>
CLI::Option* add_word(CLI::App& command, const std::string& names, Value& value, const WordsFor<Value>& words,
                      const std::string& help) {
  std::vector<std::string> texts;
  std::vector<Value> values;
  std::size_t chosen = 0;
  for (const auto& [text, one] : words) {
    if (one == value) chosen = texts.size();
    texts.push_back(text);
    values.push_back(one);
  }
  return add_choice(command, names, texts, chosen, help,
                    [&value, values](std::size_t position) { value = values[position]; });
}

}  // namespace heapprof::cli
