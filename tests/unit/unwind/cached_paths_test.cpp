// The context word, by which the cached paths of a caller with several contexts are found.
#include "preload/unwind/cached_paths.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "preload/unwind/cached_steps.h"
#include "preload/unwind/thread_data.h"

using namespace heapprof;
using namespace heapprof::unwind;

namespace {

/// A stack of three steps to an anchor. The steps read the words 1, 3 and 5, of which the first never changes.
class Stack {
 public:
  Stack() {
    anchor_.words = 1;
    anchor_.flags = kFpUnused;
    arrays_.frames = &anchor_;
    arrays_.prefix_versions = &prefix_version_;
    data_->arrays = &arrays_;
    for (std::size_t i = 0; i != steps_.size(); ++i) {
      steps_[i].cfa = StackPointer{address_of(2 * i + 2)};
      steps_[i].rule = Rule(RuleKind::kSp, ModuleId{1}, 2);
      taken_[i] = &steps_[i];
    }
  }

  /// An event whose path is not cached: it is captured by steps.
  void capture(std::uint64_t second, std::uint64_t third) {
    words_[1] = 0x4000;
    words_[3] = second;
    words_[5] = third;
    REQUIRE(find_path_slow(*data_, entry()) == nullptr);
    cache_path_of_steps(*data_, entry(), taken_.data(), static_cast<std::uint32_t>(taken_.size()), 0, NodeId{1});
  }

  /// The number of the context word; 1: there is none.
  std::uint32_t context_word() const {
    return data_->first_returns[CachedPaths::first_return_index(entry())].context / 8;
  }

 private:
  std::uint64_t address_of(std::size_t word) const { return reinterpret_cast<std::uint64_t>(&words_[word]); }
  arch::EntryRegisters entry() const { return {ProgramCounter{0x1000}, StackPointer{address_of(0)}, 0}; }

  alignas(16) std::array<std::uint64_t, 8> words_{};
  std::array<CachedStep, 3> steps_{};
  std::array<CachedStep*, 3> taken_{};
  Frame anchor_{};
  std::uint64_t prefix_version_ = 0;
  FrameArrays arrays_{};
  std::unique_ptr<ThreadData> data_ = std::make_unique<ThreadData>();
};

}  // namespace

TEST_CASE("each stack that is not found counts once on the way to another context word") {
  Stack stack;
  stack.capture(0x5000, 0x6000);
  CHECK(stack.context_word() == 1);
  stack.capture(0x5100, 0x6000);
  CHECK(stack.context_word() == 3);
  // The second change takes four stacks that differ in another word.
  for (std::uint64_t third = 0x6100; third != 0x6400; third += 0x100) {
    stack.capture(0x5100, third);
    CHECK(stack.context_word() == 3);
  }
  stack.capture(0x5100, 0x6400);
  CHECK(stack.context_word() == 5);
}
