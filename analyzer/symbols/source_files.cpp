#include "analyzer/symbols/source_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "analyzer/symbols/file_descriptor.h"
#include "analyzer/symbols/packed_table.h"
#include "analyzer/symbols/sysroot.h"
#include "common/varint.h"

namespace heapprof::symbols {

namespace {

constexpr std::uint64_t kSourcesMagic = 0x3145435253465048;  // "HPFSRCE1"

void append_text(std::string& table, std::string_view text) {
  std::uint8_t bytes[kMaxVarintBytes];
  const std::uint8_t* const end = put_varint(bytes, text.size());
  table.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  table.append(text);
}

std::optional<std::uint64_t> take_number(std::string_view& table) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(table.data());
  std::uint64_t value = 0;
  const std::uint8_t* const next = get_varint(begin, begin + table.size(), value);
  if (next == nullptr) return std::nullopt;
  table.remove_prefix(static_cast<std::size_t>(next - begin));
  return value;
}

std::optional<std::string> take_text(std::string_view& table) {
  const std::optional<std::uint64_t> size = take_number(table);
  if (!size || *size > table.size()) return std::nullopt;
  std::string text(table.substr(0, *size));
  table.remove_prefix(*size);
  return text;
}

/// Reads a regular file of text. On failure `why_not` gets a reason unless the file does not exist.
std::optional<SourceText> read_text_file(const std::string& path, std::string& why_not) {
  // Not blocking: the path may be that of a pipe.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    if (errno != ENOENT && errno != ENOTDIR) why_not = std::string("cannot be read: ") + std::strerror(errno);
    return std::nullopt;
  }
  struct stat status {};
  const bool is_regular = ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (!is_regular) {
    why_not = "is no regular file";
    return std::nullopt;
  }
  if (static_cast<std::uint64_t>(status.st_size) > kMaxSourceBytes) {
    why_not = "is larger than 16 MiB";
    return std::nullopt;
  }
  SourceText source;
  source.text.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < source.text.size()) {
    const ssize_t got = ::read(file.get(), source.text.data() + done, source.text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  source.text.resize(done);
  if (source.text.find('\0') != std::string::npos) {
    why_not = "is not text";
    return std::nullopt;
  }
  source.found_at = path;
  source.changed_ns = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                      static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  return source;
}

/// The ends of `path` that begin after a '/', the longest first: "home/me/a.c", "me/a.c", "a.c".
std::vector<std::string> ends_of(const std::string& path) {
  std::vector<std::string> ends;
  if (path.find("/../") != std::string::npos || path.starts_with("../")) {
    ends.push_back(path.substr(path.rfind('/') + 1));
    return ends;
  }
  for (std::size_t begin = path.front() == '/' ? 1 : 0; begin < path.size();) {
    ends.push_back(path.substr(begin));
    const std::size_t slash = path.find('/', begin);
    if (slash == std::string::npos) break;
    begin = slash + 1;
  }
  return ends;
}

}  // namespace

std::string encode_sources(const PackedSources& sources) {
  std::string table;
  std::uint8_t bytes[kMaxVarintBytes];
  const std::uint8_t* const end = put_varint(bytes, sources.size());
  table.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  for (const auto& [path, text] : sources) {
    append_text(table, path);
    append_text(table, text);
  }
  return pack_table(kSourcesMagic, table, "the source files");
}

std::optional<PackedSources> decode_sources(std::string_view encoded) {
  const std::optional<std::string> unpacked = unpack_table(kSourcesMagic, encoded);
  if (!unpacked) return std::nullopt;
  std::string_view table = *unpacked;
  const std::optional<std::uint64_t> count = take_number(table);
  if (!count) return std::nullopt;
  PackedSources sources;
  for (std::uint64_t i = 0; i < *count; ++i) {
    std::optional<std::string> path = take_text(table);
    std::optional<std::string> text = path ? take_text(table) : std::nullopt;
    if (!text || text->size() > kMaxSourceBytes) return std::nullopt;
    sources.emplace(std::move(*path), std::move(*text));
  }
  if (!table.empty()) return std::nullopt;
  return sources;
}

std::optional<SourceText> find_source(const SourcePlaces& places, const std::string& path, std::string& why_not) {
  why_not.clear();
  if (path.empty()) return std::nullopt;
  for (const std::string& directory : places.directories)
    for (const std::string& end : ends_of(path))
      if (auto found = read_text_file(directory + "/" + end, why_not)) return found;
  if (const auto packed = places.packed.find(path); packed != places.packed.end())
    return SourceText{packed->second, {}, std::nullopt};
  const std::string there = path.front() == '/' ? path_in_sysroot(places.sysroot, path) : path;
  if (auto found = read_text_file(there, why_not)) return found;
  if (why_not.empty()) why_not = "was not found";
  return std::nullopt;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace heapprof::symbols
