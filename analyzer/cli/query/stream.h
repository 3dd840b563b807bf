// Rows that a second thread produces while they are read: SQLite asks for one row after the other, but the replay of
// a trace hands events out.
//
// At most kMaxBatches batches wait, so memory does not grow with the trace. A stream that is given up ends its
// thread: the producer gets an exception the next time it adds a row or reports progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace heapprof::cli {

template <typename Row>
class Stream {
  static constexpr std::size_t kBatchRows = 4096;
  static constexpr std::size_t kMaxBatches = 8;

 public:
  /// Thrown in the producer when nobody reads any more.
  class Abandoned : public std::exception {};

  class Writer {
   public:
    explicit Writer(Stream& stream) : stream_(stream) { rows_.reserve(kBatchRows); }
    void add(const Row& row) {
      rows_.push_back(row);
      if (rows_.size() == kBatchRows) [[unlikely]]
        flush();
    }
    /// Throws if nobody reads any more.
    void check() const {
      const std::lock_guard lock(stream_.mutex_);
      if (stream_.abandoned_) throw Abandoned();
    }
    void flush() {
      if (!rows_.empty()) stream_.put(std::exchange(rows_, {}));
      rows_.reserve(kBatchRows);
    }

   private:
    Stream& stream_;
    std::vector<Row> rows_;
  };

  /// `produce` runs in a thread. `wait` is called about ten times a second while there is no row, and may throw.
  Stream(std::function<void(Writer&)> produce, std::function<void()> wait) : wait_(std::move(wait)) {
    thread_ = std::thread([this, produce = std::move(produce)] {
      std::exception_ptr failure;
      try {
        Writer writer(*this);
        produce(writer);
        writer.flush();
      } catch (const Abandoned&) {  // who gave up needs no reason
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      failure_ = failure;
      ended_ = true;
      changed_.notify_all();
    });
  }
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The next row; null: there is none. Valid until the next call. Throws what the producer has thrown.
  const Row* next() {
    if (at_ == current_.size()) [[unlikely]] {
      if (!take()) return nullptr;
    }
    return &current_[at_++];
  }

 private:
  bool take() {
    std::unique_lock lock(mutex_);
    const auto has_news = [this] { return !batches_.empty() || ended_; };
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), has_news)) {
      lock.unlock();
      wait_();
      lock.lock();
    }
    if (batches_.empty()) {
      if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
      return false;
    }
    current_ = std::move(batches_.front());
    batches_.pop_front();
    at_ = 0;
    changed_.notify_all();
    return true;
  }

  void put(std::vector<Row> rows) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return batches_.size() < kMaxBatches || abandoned_; });
    if (abandoned_) throw Abandoned();
    batches_.push_back(std::move(rows));
    changed_.notify_all();
  }

  const std::function<void()> wait_;
  std::vector<Row> current_;
  std::size_t at_ = 0;
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::deque<std::vector<Row>> batches_;
  std::exception_ptr failure_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace heapprof::cli
