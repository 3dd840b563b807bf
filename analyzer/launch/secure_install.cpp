#include "analyzer/launch/secure_install.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "analyzer/base/atomic_file.h"

namespace heapprof::launch {

namespace {

// The same name as in the recorder's settings.h.
constexpr const char* kConfiguration = "/etc/heapprof.conf";

std::string failed(const std::string& what) { return what + ": " + std::strerror(errno); }

bool is_installed(const std::string& library) {
  struct stat status {};
  return lstat(library.c_str(), &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & S_ISUID) != 0;
}

/// Atomically: a program that starts meanwhile finds the complete library or none.
bool copy_library(const std::string& from, const std::string& to, std::string& error) try {
  std::ifstream in(from, std::ios::binary);
  if (!in) return error = failed(from + " cannot be read"), false;
  AtomicFile out(to);
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    out.append(std::string_view(buffer.data(), static_cast<std::size_t>(in.gcount())));
  if (in.bad()) return error = failed(from + " cannot be read"), false;
  // The mode last: a change of the owner removes u+s.
  const char* const copy = out.temporary_path().c_str();
  if (chown(copy, 0, 0) != 0 || chmod(copy, 04755) != 0) return error = failed(to + " cannot be written"), false;
  out.finish();
  return true;
} catch (const FileError& failure) {
  return error = failure.what(), false;
}

bool make_directory(const std::string& directory, std::string& done, std::string& error) {
  if (mkdir(directory.c_str(), 0700) == 0) {
    if (chmod(directory.c_str(), 01733) != 0) return error = failed(directory), false;
    done += "created " + directory + ", mode 1733: programs add recordings to it, only root can list them\n";
    return true;
  }
  struct stat status {};
  if (errno != EEXIST || lstat(directory.c_str(), &status) != 0)
    return error = failed(directory + " cannot be created"), false;
  if (S_ISDIR(status.st_mode) && status.st_uid == 0 &&
      ((status.st_mode & 022) == 0 || (status.st_mode & S_ISVTX) != 0)) {
    done += directory + " exists and was not changed\n";
    return true;
  }
  error = directory + " must be a directory that root owns, and that others can write to only if it is sticky";
  return false;
}

/// The directory that the configuration names; empty when there is none.
std::string configured_directory() {
  std::ifstream file(kConfiguration);
  const std::string name = "HEAPPROF_DIRECTORY=";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return line.substr(name.size());
  return {};
}

bool remove_file(const std::string& path, std::string& done, std::string& error) {
  if (unlink(path.c_str()) == 0) return done += "removed " + path + "\n", true;
  if (errno == ENOENT) return true;
  return error = failed(path + " cannot be removed"), false;
}

}  // namespace

std::string trusted_library() {
  Dl_info libc{};
  const void* symbol = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  if (symbol == nullptr || dladdr(symbol, &libc) == 0 || libc.dli_fname == nullptr) return {};
  std::error_code error;
  const auto file = std::filesystem::canonical(libc.dli_fname, error);
  return error ? std::string() : (file.parent_path() / "libheapprof.so").string();
}

bool install_trusted(const std::string& recorder, const std::string& directory, std::string& done,
                     std::string& error) {
  const std::string library = trusted_library();
  if (library.empty()) return error = "the library directory of this system's loader is not known", false;
  if (directory.empty() || directory[0] != '/' || directory.find('\n') != std::string::npos)
    return error = "invalid value '" + directory + "' for --directory; expected an absolute path", false;
  struct stat status {};
  const bool in_place = recorder == library;
  if (!in_place && lstat(library.c_str(), &status) == 0 && !is_installed(library))
    return error = library + " exists and is not from this command; remove it first", false;
  const bool configured = lstat(kConfiguration, &status) == 0;
  const std::string place = configured ? configured_directory() : directory;
  if (configured && place != directory)
    return error = std::string(kConfiguration) + " exists and names " + (place.empty() ? "no directory" : place) +
                   "; --remove first, or --directory " + place,
           false;

  if (!make_directory(directory, done, error)) return false;
  if (configured) {
    done += std::string(kConfiguration) + " exists and was not changed\n";
  } else {
    const int fd = open(kConfiguration, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    const std::string text =
        "# The settings of heapprof in programs with privileges (AT_SECURE), which read no environment variables.\n"
        "HEAPPROF_DIRECTORY=" +
        directory + "\nHEAPPROF_MAX_FILE_SIZE=1G\n";
    const bool written =
        fd >= 0 && fchmod(fd, 0644) == 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (!written) error = failed(std::string(kConfiguration) + " cannot be written");
    if (fd >= 0) close(fd);
    if (!written) {
      // O_EXCL: it is ours, and incomplete.
      if (fd >= 0) unlink(kConfiguration);
      return false;
    }
    done += std::string("wrote ") + kConfiguration + ", owned by root, mode 0644\n";
  }
  // The last step: from here on privileged programs can load the library.
  if (in_place) {
    if (chmod(library.c_str(), 04755) != 0) return error = failed(library), false;
    done += "set mode u+s on " + library + "\n";
  } else {
    if (!copy_library(recorder, library, error)) return false;
    done += "copied " + recorder + " to " + library + ", mode u+s\n";
  }
  return true;
}

bool remove_trusted(const std::string& recorder, std::string& done, std::string& error) {
  const std::string library = trusted_library();
  if (recorder == library) {
    if (is_installed(library)) {
      if (chmod(library.c_str(), 0755) != 0) return error = failed(library), false;
      done += "removed mode u+s from " + library + "\n";
    }
  } else if (is_installed(library) && !remove_file(library, done, error)) {
    return false;
  }
  const std::string directory = configured_directory();
  if (!remove_file(kConfiguration, done, error)) return false;
  if (directory.empty()) return true;
  if (rmdir(directory.c_str()) == 0) {
    done += "removed " + directory + "\n";
  } else if (errno != ENOENT) {
    done += directory + " stays: " + std::strerror(errno) + "\n";
  }
  return true;
}

}  // namespace heapprof::launch
