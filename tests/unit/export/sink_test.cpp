// Reading returns what was written, whatever the compression; failures are reported and leave no partial file.
#include "analyzer/export/sink.h"
#include "tests/support/seed.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <catch2/catch.hpp>

using heapprof::exporter::Sink;

namespace {

struct TemporaryDirectory {
  TemporaryDirectory() {
    char name[] = "/tmp/heapprof-output-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryDirectory() { std::system(("rm -rf " + path).c_str()); }
  std::string path;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string gunzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string out;
  char buffer[4096];
  int count;
  while ((count = gzread(file, buffer, sizeof buffer)) > 0) out.append(buffer, static_cast<std::size_t>(count));
  CHECK(count == 0);
  CHECK(gzclose(file) == Z_OK);
  return out;
}

std::string unzstd(const std::string& path) {
  const std::string packed = read_file(path);
  std::string out;
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::size_t left = 0;
  while (in.pos < in.size) {
    char buffer[4096];
    ZSTD_outBuffer piece{buffer, sizeof buffer, 0};
    left = ZSTD_decompressStream(context, &piece, &in);
    REQUIRE_FALSE(ZSTD_isError(left));
    out.append(buffer, piece.pos);
    while (piece.pos == piece.size) {
      piece.pos = 0;
      left = ZSTD_decompressStream(context, &piece, &in);
      REQUIRE_FALSE(ZSTD_isError(left));
      out.append(buffer, piece.pos);
    }
  }
  CHECK(left == 0);  // the frame has ended
  ZSTD_freeDCtx(context);
  return out;
}

/// Small and large pieces, by write() and by reserve().
std::string write_pieces(Sink& output, std::size_t bytes) {
  std::mt19937 random(heapprof::test::seed(42));
  std::string all;
  while (all.size() < bytes) {
    std::string piece(random() % 50 == 0 ? random() % 600'000 : random() % 200, ' ');
    for (char& c : piece) c = static_cast<char>("abcdef\n"[random() % 7]);
    if (piece.size() <= Sink::kMaxDirect && random() % 2 == 0) {
      char* out = output.reserve(Sink::kMaxDirect);
      piece.copy(out, piece.size());
      output.commit(piece.size());
    } else {
      output.write(piece);
    }
    all += piece;
  }
  return all;
}

}  // namespace

TEST_CASE("the name selects the compression, and the content is unchanged") {
  const TemporaryDirectory directory;
  for (const std::size_t bytes : {0, 1, 5'000'000}) {
    for (const std::string name : {"plain.txt", "packed.gz", "packed.zst", "gz", "a.zst.txt"}) {
      INFO(name << " of " << bytes);
      const std::string path = directory.path + "/" + name;
      Sink output(path);
      const std::string written = write_pieces(output, bytes);
      REQUIRE(output.close());
      CHECK(output.error().empty());
      const std::string read = name.ends_with(".gz")    ? gunzip(path)
                               : name.ends_with(".zst") ? unzstd(path)
                                                        : read_file(path);
      CHECK((read == written));
    }
  }
}

TEST_CASE("without compression, the name has no effect, and a new file has the given mode") {
  const TemporaryDirectory directory;
  for (const std::string name : {"plain.txt", "name.gz", "name.zst"}) {
    INFO(name);
    const std::string path = directory.path + "/" + name;
    Sink output(path, Sink::Compression::kNone, Sink::kUserOnly);
    const std::string written = write_pieces(output, 300'000);
    REQUIRE(output.close());
    CHECK((read_file(path) == written));
    struct stat status;
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
  }
}

TEST_CASE("equal content gives equal files") {
  const TemporaryDirectory directory;
  for (const std::string suffix : {".gz", ".zst"}) {
    for (const std::string name : {"a", "b"}) {
      Sink output(directory.path + "/" + name + suffix);
      write_pieces(output, 300'000);
      REQUIRE(output.close());
    }
    CHECK((read_file(directory.path + "/a" + suffix) == read_file(directory.path + "/b" + suffix)));
  }
}

TEST_CASE("the error for a path that cannot be opened has its name and the reason") {
  Sink output("/nonexistent-directory/out.gz");
  CHECK_FALSE(output.ok());
  CHECK(output.error() == "/nonexistent-directory/out.gz: cannot be written: No such file or directory");
  output.write("ignored");
  CHECK_FALSE(output.close());
}

TEST_CASE("a full disk is reported, whatever the compression") {
  for (const std::string name : {"/dev/full"}) {
    Sink output(name);
    output.write(std::string(1'000'000, 'x'));
    CHECK_FALSE(output.close());
    CHECK(output.error() == "/dev/full: cannot be written: No space left on device");
  }
  struct stat status;
  CHECK(::stat("/dev/full", &status) == 0);  // a device is not removed
}

TEST_CASE("a failed or unfinished file is removed") {
  const TemporaryDirectory directory;
  const std::string path = directory.path + "/half.gz";
  {
    Sink output(path);
    output.write("something");
    output.fail("the export was cancelled");
    CHECK_FALSE(output.close());
    CHECK(output.error() == path + ": the export was cancelled");
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
  {
    Sink output(path);
    output.write("never closed");
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a file size limit in the middle of compressed output is reported") {
  const TemporaryDirectory directory;
  struct rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small {
    100'000, before.rlim_max
  };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string error;
  {
    Sink output(directory.path + "/big.zst");
    std::mt19937_64 random(heapprof::test::seed(1));
    for (int i = 0; i < 100'000; ++i) output.write(std::to_string(random()));
    CHECK_FALSE(output.close());
    error = output.error();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK(error == directory.path + "/big.zst: cannot be written: File too large");
}
