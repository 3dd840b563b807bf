// What the screen of `top` shows, as lines of text, and what its keys do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/cli/text/text_style.h"
#include "analyzer/cli/top/terminal.h"
#include "analyzer/cli/top/top_model.h"
#include "analyzer/cli/top/top_options.h"

namespace heapprof::cli {

/// What the user wants of the recorder.
enum class TopRequest { kPauseOrResume, kMark };

class TopScreen {
 public:
  /// `request` sends a request, with the text of a mark, and returns a sentence of what became of it.
  using Send = std::function<std::string(TopRequest request, const std::string& text)>;

  /// `model` must outlive this.
  TopScreen(TopModel& model, const TopOptions& options, Send send)
      : model_(model), by_(options.by), sort_(options.sort), view_(options.call_sites.view), send_(std::move(send)) {}

  /// `lines` lines of text, in style.width columns.
  std::vector<std::string> lines(const TextStyle& style, std::size_t lines);

  /// False: the user wants to quit.
  bool press(KeyPress key);

 private:
  enum class Page { kTable, kStacks, kHelp };

  std::vector<std::string> table_lines(const TextStyle& style, std::size_t lines);
  std::vector<std::string> stack_lines(const TextStyle& style) const;
  bool press_letter(char letter);
  void move(Key key);
  void open_stacks();
  void mark();

  TopModel& model_;
  views::By by_;
  TopSort sort_;
  ViewOptions view_;
  const Send send_;
  Page page_ = Page::kTable;
  std::size_t selected_ = 0;   // row of the table
  std::size_t top_row_ = 0;    // the first row that is shown
  std::size_t top_line_ = 0;   // of the other pages
  std::size_t page_rows_ = 1;  // rows or lines that fit
  std::size_t all_rows_ = 0;
  std::uint32_t selected_key_ = model::kNoIndex;
  std::string selected_label_;
  std::size_t marks_ = 0;
  std::string message_;  // what the last key did
};

}  // namespace heapprof::cli
