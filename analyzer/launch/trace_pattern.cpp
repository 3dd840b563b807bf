#include "analyzer/launch/trace_pattern.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace heapprof::launch {

namespace {

/// Calls escape(c) for each of %e %p %t %h and literal(c) for every other character, as the recorder reads patterns:
/// "%%" is a percent sign, an unknown escape is literal text.
template <typename Literal, typename Escape>
void read_pattern(std::string_view pattern, Literal&& literal, Escape&& escape) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      literal(pattern[i]);
      continue;
    }
    switch (const char c = pattern[++i]) {
      case '%': literal('%'); break;
      case 'e':
      case 'p':
      case 't':
      case 'h': escape(c); break;
      default: literal('%'), literal(c);
    }
  }
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_suffix(std::string_view text) {
  return text.size() > 1 && text.front() == '.' && text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

/// Creates a file in `directory` and removes it; it has no name (O_TMPFILE) where the file system supports that.
/// Returns 0 or errno.
int try_file(const std::string& directory) {
  int fd = open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0 && errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return errno;
  if (fd < 0) {
    const std::string name = directory + "/.heapprof." + std::to_string(getpid());
    fd = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    unlink(name.c_str());
  }
  close(fd);
  return 0;
}

}  // namespace

std::string absolute_pattern(const std::string& pattern) {
  if (pattern.starts_with('/')) return pattern;
  char* directory = getcwd(nullptr, 0);
  if (directory == nullptr) return {};
  std::string result;
  for (const char* at = directory; *at != '\0'; ++at) result += *at == '%' ? "%%" : std::string(1, *at);
  std::free(directory);
  return result + (result.ends_with('/') ? "" : "/") + pattern;
}

std::string fixed_name(const std::string& pattern) {
  std::string name;
  bool fixed = true;
  read_pattern(
      pattern, [&](char c) { name += c; }, [&](char) { fixed = false; });
  return fixed ? name : std::string();
}

bool check_writable(const std::string& pattern, std::string& error) {
  // The name is known up to the first escape.
  std::string known;
  bool complete = true;
  read_pattern(
      pattern,
      [&](char c) {
        if (complete) known += c;
      },
      [&](char) { complete = false; });
  struct stat status {};
  if (complete && (known.ends_with('/') || (stat(known.c_str(), &status) == 0 && S_ISDIR(status.st_mode)))) {
    error = "the output " + known + " is a directory; name a file in it with -o, or write '-o " + known +
            (known.ends_with('/') ? "" : "/") + "' for one file for each process";
    return false;
  }

  std::string directory = directory_of(known);
  bool exists = true;
  int problem = 0;
  while (stat(directory.c_str(), &status) != 0) {
    problem = errno;
    if (problem != ENOENT || directory == "/") break;
    problem = 0;
    exists = false;
    directory = directory_of(directory);
  }
  if (problem == 0) {
    if (!S_ISDIR(status.st_mode)) {
      problem = ENOTDIR;
    } else if (exists) {
      problem = try_file(directory);
    } else if (faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      problem = errno;
    }
  }
  if (problem == 0) return true;
  error = "the output " + pattern + " cannot be written: " + directory + ": " + std::strerror(problem) +
          "; name another file with -o";
  return false;
}

bool remove_existing(const std::string& name, bool force, std::string& error) {
  struct stat status {};
  if (lstat(name.c_str(), &status) != 0) return true;
  if (!force) {
    error = name + " exists; --force replaces it";
    return false;
  }
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    error = name + " is not a regular file, so --force does not replace it";
    return false;
  }
  if (unlink(name.c_str()) == 0) return true;
  error = name + " cannot be replaced: " + std::strerror(errno);
  return false;
}

std::vector<std::string> find_files(const std::string& pattern, int pid) {
  std::string wanted;
  const auto literal = [&](char c) {
    if (std::strchr("*?[\\", c) != nullptr) wanted += '\\';
    wanted += c;
  };
  read_pattern(pattern, literal, [&](char c) { wanted += c == 'p' && pid != 0 ? std::to_string(pid) : "*"; });

  std::vector<std::string> found;
  glob_t matches{};
  if (glob(wanted.c_str(), 0, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) found.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
  if (glob((wanted + ".*").c_str(), 0, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
      const std::string_view path(matches.gl_pathv[i]);
      if (is_suffix(path.substr(path.rfind('.')))) found.emplace_back(path);
    }
  globfree(&matches);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string files_of(const std::string& pattern) {
  std::string files;
  bool fixed = true;
  read_pattern(
      pattern, [&](char c) { files += c; }, [&](char) { files += '*', fixed = false; });
  return fixed ? files + ".*" : files;
}

}  // namespace heapprof::launch
