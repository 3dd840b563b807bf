#include "analyzer/cli/command_line/option_kinds.h"

#include <utility>

namespace heapprof::cli {
namespace {

/// "-o,--output": "--output".
std::string long_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

/// "heap, mmap or all"
std::string listed(const std::vector<std::string>& words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i)
    result += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  return result;
}

}  // namespace

void refuse(const std::string& message) { throw CLI::ParseError(message, CLI::ExitCodes::ValidationError); }

void refuse_value(const std::string& value, const std::string& option, const std::string& expected) {
  refuse("invalid value '" + value + "' for " + option + "; expected " + expected);
}

bool was_given(const CLI::Option* option) { return option->count() != 0; }

CLI::Option* add_value(CLI::App& command, const std::string& names, const std::string& type, const std::string& help,
                       std::function<void(const std::string&)> read) {
  return command
      .add_option(
          names,
          [read = std::move(read)](const CLI::results_t& values) {
            read(values.front());
            return true;
          },
          help)
      ->type_name(type);
}

CLI::Option* add_text(CLI::App& command, const std::string& names, std::string& value, const std::string& type,
                      const std::string& help) {
  return add_value(command, names, type, help, [&value](const std::string& text) { value = text; });
}

CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& type, const std::string& help) {
  return command
      .add_option(
          names,
          [&values](const CLI::results_t& texts) {
            values = texts;
            return true;
          },
          help)
      ->type_name(type)
      ->expected(CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
}

CLI::Option* add_number(CLI::App& command, const std::string& names, std::size_t& value, const std::string& help) {
  return add_value(command, names, "N", help,
                   [&value, name = long_name(names)](const std::string& text) {
                     std::uint64_t number = 0;
                     if (!read_whole_number(text, number)) refuse_value(text, name, "a whole number such as 20");
                     value = number;
                   })
      ->default_str(std::to_string(value));
}

CLI::Option* add_size(CLI::App& command, const std::string& names, const std::string& help,
                      std::function<void(std::uint64_t)> set) {
  return add_value(command, names, "SIZE", help,
                   [set = std::move(set), name = long_name(names)](const std::string& text) {
                     std::uint64_t bytes = 0;
                     if (!read_size(text, bytes)) refuse_value(text, name, "a size such as 500, 4K, 200M or 2G");
                     set(bytes);
                   });
}

CLI::Option* add_choice(CLI::App& command, const std::string& names, const std::vector<std::string>& words,
                        std::size_t chosen, const std::string& help, std::function<void(std::size_t)> set) {
  std::string type;
  for (const std::string& word : words) type += (type.empty() ? "" : "|") + word;
  return add_value(command, names, type, help,
                   [set = std::move(set), words, name = long_name(names)](const std::string& text) {
                     for (std::size_t i = 0; i < words.size(); ++i)
                       if (words[i] == text) return set(i);
                     refuse_value(text, name, listed(words));
                   })
      ->default_str(words[chosen]);
}

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& value, const std::string& help) {
  return command.add_flag(name, value, help);
}

}  // namespace heapprof::cli
