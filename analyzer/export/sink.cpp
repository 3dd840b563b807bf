#include "analyzer/export/sink.h"

// Makes zlib declare its input as const.
#define ZLIB_CONST

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "analyzer/export/output_file.h"

namespace heapprof::exporter {

/// Compresses bytes and passes the result to Sink::write_file.
struct Sink::Compressor {
  explicit Compressor(Sink& output) : output_(output) {}
  virtual ~Compressor() = default;
  virtual void add(const char* bytes, std::size_t size, bool last) = 0;

 protected:
  Sink& output_;
  char out_[64 * 1024];
};

struct Sink::Gzip final : Compressor {
  explicit Gzip(Sink& output) : Compressor(output) {
    // + 16: a gzip header instead of a zlib header. It has no name and no time, so equal contents give equal files.
    constexpr int kGzipWindow = 15 + 16;
    constexpr int kMemoryLevel = 8;
    good_ = deflateInit2(&stream_, 6, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
    if (!good_) output.fail("not enough memory to compress");
  }
  ~Gzip() override {
    if (good_) deflateEnd(&stream_);
  }
  void add(const char* bytes, std::size_t size, bool last) override {
    if (!good_) return;
    stream_.next_in = reinterpret_cast<const Bytef*>(bytes);
    stream_.avail_in = static_cast<uInt>(size);
    int result = Z_OK;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_);
      stream_.avail_out = sizeof out_;
      result = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      output_.write_file(out_, sizeof out_ - stream_.avail_out);
    } while (stream_.avail_out == 0 || (last && result == Z_OK));
  }

 private:
  z_stream stream_{};
  bool good_ = false;
};

struct Sink::Zstd final : Compressor {
  explicit Zstd(Sink& output) : Compressor(output), context_(ZSTD_createCCtx()) {
    if (context_ == nullptr) {
      output.fail("not enough memory to compress");
      return;
    }
    ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
  }
  ~Zstd() override { ZSTD_freeCCtx(context_); }
  void add(const char* bytes, std::size_t size, bool last) override {
    if (context_ == nullptr) return;
    ZSTD_inBuffer in{bytes, size, 0};
    for (;;) {
      ZSTD_outBuffer out{out_, sizeof out_, 0};
      const std::size_t left = ZSTD_compressStream2(context_, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left)) {
        output_.fail(ZSTD_getErrorName(left));
        return;
      }
      output_.write_file(out_, out.pos);
      if (last ? left == 0 : in.pos == in.size) return;
    }
  }

 private:
  ZSTD_CCtx* context_;
};

Sink::Sink(std::string path, Compression compression, mode_t mode)
    : path_(std::move(path)), buffer_(new char[kBufferBytes]) {
  if (path_ == "-") {
    if (compression == Compression::kGzip) compressor_ = std::make_unique<Gzip>(*this);
    return;
  }
  try {
    file_ = std::make_unique<OutputFile>(path_, mode);
  } catch (const FileError& error) {
    error_ = error.what();
    return;
  }
  const bool by_name = compression == Compression::kByName;
  if (compression == Compression::kGzip || (by_name && path_.ends_with(".gz")))
    compressor_ = std::make_unique<Gzip>(*this);
  else if (by_name && path_.ends_with(".zst")) compressor_ = std::make_unique<Zstd>(*this);
}

Sink::Sink(std::string* memory, Compression compression) : memory_(memory), buffer_(new char[kBufferBytes]) {
  if (compression == Compression::kGzip) compressor_ = std::make_unique<Gzip>(*this);
}

Sink::~Sink() = default;

void Sink::flush() {
  write_through(buffer_.get(), used_);
  used_ = 0;
}

void Sink::write_through(const char* bytes, std::size_t size) {
  // zlib counts in 32 bits.
  constexpr std::size_t kMaxAtOnce = 1u << 30;
  while (size > 0 && ok()) {
    const std::size_t now = size < kMaxAtOnce ? size : kMaxAtOnce;
    if (compressor_) compressor_->add(bytes, now, false);
    else write_file(bytes, now);
    bytes += now;
    size -= now;
  }
}

void Sink::write_file(const char* bytes, std::size_t size) {
  if (memory_ != nullptr) {
    memory_->append(bytes, size);
  } else if (file_ == nullptr) {
    write_standard_output(bytes, size);
  } else if (ok()) {
    try {
      file_->append({bytes, size});
    } catch (const FileError& error) {
      error_ = error.what();
    }
  }
}

void Sink::write_standard_output(const char* bytes, std::size_t size) {
  while (size > 0 && ok()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(std::string("cannot be written: ") + std::strerror(errno));
      return;
    }
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

bool Sink::close() {
  if (closed_) return ok();
  if (ok()) flush();
  if (ok() && compressor_) compressor_->add(nullptr, 0, true);
  if (!ok()) return false;
  closed_ = true;
  try {
    if (file_ != nullptr) file_->finish();
  } catch (const FileError& error) {
    error_ = error.what();
  }
  return ok();
}

void Sink::fail(const std::string& reason) {
  if (ok()) error_ = (path_ == "-" ? "standard output" : path_) + ": " + reason;
}

}  // namespace heapprof::exporter
