#include "analyzer/launch/recorder_settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "analyzer/cli/options/spelling_suggestion.h"

namespace heapprof::launch {

namespace {

enum class Kind {
  kOutput,
  kPath,
  kLevel,
  kSwitch,
  kFlag,  ///< a switch that is on when its option stands alone
  kDepth,
  kSize,
};

struct Setting {
  const char* option;
  const char* variable;
  Kind kind;
  const char* value;  ///< in the help
  const char* help;
};

// The recorder reads the same variables by the same rules: preload/recorder/process/settings.cpp.
constexpr std::array kSettings = {
    Setting{"--output", "HEAPPROF_OUTPUT", Kind::kOutput, "FILE",
            "where the trace goes: %e program, %p pid, %t start time,\n"
            "%h host, %% a percent sign; default heapprof.%e.%p.hprof"},
    Setting{"--log", "HEAPPROF_LOG", Kind::kLevel, "LEVEL",
            "what the recorder says: off, error, warn, info, debug; default warn"},
    Setting{"--log-file", "HEAPPROF_LOG_FILE", Kind::kPath, "FILE", "where it says it; default standard error"},
    Setting{"--shadow-stack", "HEAPPROF_SHADOW_STACK", Kind::kSwitch, "on|off",
            "off: unwind every stack from scratch; default on"},
    Setting{"--max-depth", "HEAPPROF_MAX_DEPTH", Kind::kDepth, "N", "frames per stack; default 1024"},
    Setting{"--mmap", "HEAPPROF_MMAP", Kind::kSwitch, "on|off", "record mmap, munmap, mremap and brk; default on"},
    Setting{"--free-stacks", "HEAPPROF_FREE_STACKS", Kind::kFlag, "[on|off]",
            "record the stack of every free too; default off"},
    Setting{"--children", "HEAPPROF_CHILDREN", Kind::kFlag, "[on|off]",
            "record children too, each into its own file; default off"},
    Setting{"--paused", "HEAPPROF_PAUSED", Kind::kFlag, "[on|off]",
            "start paused; `heapprof control` resumes; default off"},
    Setting{"--own-allocators", "HEAPPROF_OWN_ALLOCATORS", Kind::kSwitch, "on|off",
            "record an allocator that the program carries itself,\nby patching its functions; default on"},
    Setting{"--max-file-size", "HEAPPROF_MAX_FILE_SIZE", Kind::kSize, "SIZE",
            "stop recording at this size, such as 500M or 2G; default none"},
};

const char* allowed(Kind kind) {
  switch (kind) {
    case Kind::kOutput: return "a path of at most 4000 characters";
    case Kind::kPath: return "a path of at most 1000 characters";
    case Kind::kLevel: return "off, error, warn, info or debug";
    case Kind::kSwitch:
    case Kind::kFlag: return "on, off, 1, 0, yes or no";
    case Kind::kDepth: return "a number from 1 to 65536";
    case Kind::kSize: return "a size such as 500M or 2G";
  }
  return "";
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Decimal digits at the start of `text`, which they are removed from.
bool take_number(std::string_view& text, std::uint64_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  number = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (__builtin_mul_overflow(number, std::uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<std::uint64_t>(text.front() - '0'), &number)) return false;
  }
  return true;
}

bool valid_size(std::string_view text) {
  std::uint64_t number = 0;
  if (!take_number(text, number)) return false;
  if (text.empty()) return true;
  const std::size_t suffix = std::string_view("kKmMgGtT").find(text.front());
  if (suffix == std::string_view::npos || text.size() != 1) return false;
  return number >> (64 - 10 * (suffix / 2 + 1)) == 0;
}

bool is_switch_word(std::string_view text) { return one_of(text, {"on", "off", "1", "0", "yes", "no"}); }

bool valid(Kind kind, std::string_view value) {
  switch (kind) {
    case Kind::kOutput: return !value.empty() && value.size() <= 4000;
    case Kind::kPath: return !value.empty() && value.size() <= 1000;
    case Kind::kLevel: return one_of(value, {"off", "error", "warn", "info", "debug"});
    case Kind::kSwitch:
    case Kind::kFlag: return is_switch_word(value);
    case Kind::kDepth: {
      std::uint64_t depth = 0;
      return take_number(value, depth) && value.empty() && depth >= 1 && depth <= 65536;
    }
    case Kind::kSize: return valid_size(value);
  }
  return false;
}

std::string bad_value(const std::string& name, const std::string& value, Kind kind) {
  return name + "=" + value + " can't be read; allowed is " + allowed(kind);
}

const Setting* find_setting(std::string_view option) {
  const auto found = std::find_if(kSettings.begin(), kSettings.end(),
                                  [&](const Setting& setting) { return option == setting.option; });
  return found == kSettings.end() ? nullptr : &*found;
}

class Parser {
 public:
  Parser(const std::vector<std::string>& arguments, Options& options, std::string& error)
      : arguments_(arguments), options_(options), error_(error) {}

  bool run() {
    for (; at_ < arguments_.size(); ++at_) {
      const std::string& argument = arguments_[at_];
      if (argument == "--") {
        ++at_;
        break;
      }
      if (argument.size() < 2 || argument.front() != '-') break;
      if (!(argument.starts_with("--") ? long_option(argument) : short_options(argument))) return false;
      if (options_.help) return true;
    }
    options_.command.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(at_), arguments_.end());
    if (options_.command.empty())
      return fail("no program to record: heapprof record [options] PROGRAM [ARGUMENT...]");
    if (options_.command.front().empty()) return fail("the program's name is empty");
    return true;
  }

 private:
  bool fail(std::string text) {
    error_ = std::move(text);
    return false;
  }

  bool unknown(const std::string& name) {
    std::vector<std::string> names;
    for (const OptionHelp& option : described_options())
      names.insert(names.end(), option.names.begin(), option.names.end());
    const std::string meant = did_you_mean(name, names);
    return fail("unknown option " + name + (meant.empty() ? ";" : meant) +
                " 'heapprof record --help' says what there is");
  }

  bool long_option(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    const std::string value = has_value ? argument.substr(equals + 1) : std::string();
    if (bool* flag = name == "--help"    ? &options_.help
                     : name == "--quiet" ? &options_.quiet
                     : name == "--force" ? &options_.force
                                         : nullptr) {
      if (has_value) return fail(name + " takes no value");
      return *flag = true;
    }
    const Setting* setting = find_setting(name);
    if (setting == nullptr) return unknown(name);
    if (has_value) return set(*setting, name, value);
    if (setting->kind == Kind::kFlag) {
      // A word that could be a value is one if a program can still follow.
      const bool value_follows = at_ + 2 < arguments_.size() && is_switch_word(arguments_[at_ + 1]);
      return set(*setting, name, value_follows ? arguments_[++at_] : "on");
    }
    return set_next(*setting, name);
  }

  /// -q, -f, -h, and -o with its value in the same or the next argument.
  bool short_options(const std::string& argument) {
    for (std::size_t i = 1; i < argument.size(); ++i) {
      switch (argument[i]) {
        case 'q': options_.quiet = true; break;
        case 'f': options_.force = true; break;
        case 'h': return options_.help = true;
        case 'o': {
          const Setting& output = *find_setting("--output");
          return i + 1 < argument.size() ? set(output, "-o", argument.substr(i + 1)) : set_next(output, "-o");
        }
        default: return unknown(std::string("-") + argument[i]);
      }
    }
    return true;
  }

  bool set_next(const Setting& setting, const std::string& name) {
    if (at_ + 1 == arguments_.size()) return fail(name + " needs a value: " + allowed(setting.kind));
    return set(setting, name, arguments_[++at_]);
  }

  bool set(const Setting& setting, const std::string& name, const std::string& value) {
    if (!valid(setting.kind, value)) return fail(bad_value(name, value, setting.kind));
    if (std::string_view(setting.option) == "--output") {
      options_.output = value;
    } else {
      options_.settings.emplace_back(setting.variable, value);
    }
    return true;
  }

  const std::vector<std::string>& arguments_;
  Options& options_;
  std::string& error_;
  std::size_t at_ = 0;
};

}  // namespace

bool parse_options(const std::vector<std::string>& arguments, Options& options, std::string& error) {
  return Parser(arguments, options, error).run();
}

bool check_environment(std::string& error) {
  for (const Setting& setting : kSettings) {
    const char* value = std::getenv(setting.variable);
    if (value == nullptr || valid(setting.kind, value)) continue;
    error = bad_value(setting.variable, value, setting.kind) + " (it is set in the environment)";
    return false;
  }
  return true;
}

std::vector<OptionHelp> described_options() {
  std::vector<OptionHelp> result;
  for (const Setting& setting : kSettings) {
    OptionHelp option{{setting.option}, setting.value, {}, false, setting.help};
    if (setting.kind == Kind::kOutput) option.names.insert(option.names.begin(), "-o");
    option.file = setting.kind == Kind::kOutput || setting.kind == Kind::kPath;
    if (setting.kind == Kind::kSwitch || setting.kind == Kind::kFlag) option.choices = {"on", "off"};
    if (setting.kind == Kind::kLevel) option.choices = {"off", "error", "warn", "info", "debug"};
    result.push_back(std::move(option));
  }
  result.push_back({{"-f", "--force"}, "", {}, false, "replace the FILE of -o if it exists"});
  result.push_back({{"-q", "--quiet"}, "", {}, false, "no summary at the end"});
  result.push_back({{"-h", "--help"}, "", {}, false, "this text"});
  return result;
}

std::string usage() {
  std::string text =
      "Runs a program and records its allocations.\n"
      "\n"
      "Usage: heapprof record [options] [--] PROGRAM [ARGUMENT...]\n"
      "\n"
      "Options end at PROGRAM. Each of those with a value is also an environment variable:\n"
      "--max-depth is HEAPPROF_MAX_DEPTH.\n"
      "\n";
  const auto line = [&](std::string left, const std::string& help) {
    left.resize(std::max(left.size() + 2, std::size_t{28}), ' ');
    text += left;
    for (const char c : help) {
      text += c;
      if (c == '\n') text.append(28, ' ');
    }
    text += '\n';
  };
  for (const OptionHelp& option : described_options()) {
    std::string left = " ";
    for (const std::string& name : option.names) left += (left.size() > 1 ? ", " : " ") + name;
    line(option.value.empty() ? left : left + " " + option.value, option.help);
  }
  text +=
      "\n"
      "Exit status: the program's; 128 + n when signal n ended it. When it could not be started:\n"
      "  2    the command line, a variable or the output is wrong\n"
      "  125  heapprof itself failed\n"
      "  126  the program can't be executed, or can't be recorded (static, setuid, another\n"
      "       architecture)\n"
      "  127  there is no such program\n";
  return text;
}

}  // namespace heapprof::launch
