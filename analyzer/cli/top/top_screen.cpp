#include "analyzer/cli/top/top_screen.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/cli/top/top_text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using views::By;

constexpr By kGroups[] = {By::kSite, By::kFunction, By::kLine, By::kModule, By::kThread, By::kStack};
constexpr TopSort kSorts[] = {TopSort::kLive, TopSort::kBlocks, TopSort::kGrowth, TopSort::kRate};

/// Stacks of a row that are shown.
constexpr std::size_t kMaxStacks = 20;

constexpr std::pair<std::string_view, std::string_view> kKeys[] = {{"up, down", "choose a row, or k, j"},
                                                                   {"page up", "a page up, and page down"},
                                                                   {"home, end", "first or last row"},
                                                                   {"enter", "stacks of the row"},
                                                                   {"g", "next grouping"},
                                                                   {"s", "next order"},
                                                                   {"o", "own code only"},
                                                                   {"f", "full names"},
                                                                   {"m", "mark; growth since here"},
                                                                   {"p", "pause, or resume"},
                                                                   {"q", "quit"},
                                                                   {"esc", "back to the table"},
                                                                   {"ctrl-L", "draw again"},
                                                                   {"ctrl-Z", "stop; fg goes on"}};

template <typename T, std::size_t kCount>
T after(const T (&all)[kCount], T one) {
  const auto at = std::find(std::begin(all), std::end(all), one);
  return all[(static_cast<std::size_t>(at - std::begin(all)) + 1) % kCount];
}

std::vector<std::string> help_lines() {
  std::vector<std::string> lines = {"Keys of heapprof top", ""};
  for (const auto& [key, what] : kKeys) {
    std::string line = "  " + std::string(key);
    line.resize(12, ' ');
    lines.push_back(line + std::string(what));
  }
  return lines;
}

}  // namespace

std::vector<std::string> TopScreen::lines(const TextStyle& style, std::size_t lines) {
  const TextPage page(style);
  std::vector<std::string> result;
  std::string below = message_;
  if (page_ == Page::kTable) {
    result = table_lines(style, lines - 1);
    if (below.empty())
      below = std::string("by ") + heading_of(by_) + ", " + words_for(sort_) + (view_.only_own ? ", own code" : "") +
              "   ? keys, q quit";
  } else {
    result = page_ == Page::kHelp ? help_lines() : stack_lines(style);
    page_rows_ = std::max<std::size_t>(lines - 1, 1);
    top_line_ = std::min(top_line_, result.size() - std::min(result.size(), page_rows_));
    result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(top_line_));
    if (below.empty()) below = "esc: back to the table   q quit";
  }
  result.resize(lines - 1);
  result.push_back(page.paint(TextColour::kDim, page.clip(below, style.width)));
  return result;
}

std::vector<std::string> TopScreen::table_lines(const TextStyle& style, std::size_t lines) {
  // How long the head is depends on the totals alone. It leaves space for some rows and their headers.
  std::vector<std::string> result = lines_of(model_.table(by_, sort_, view_, 1), style, view_).head;
  constexpr std::size_t kMinTable = 4;
  result.resize(std::min(result.size(), std::max(lines, kMinTable + 1) - kMinTable));
  if (result.size() + kMinTable < lines) result.emplace_back();
  page_rows_ = std::max(lines, result.size() + 2) - result.size() - 1;
  const TopTable table = model_.table(by_, sort_, view_, std::max(top_row_, selected_) + page_rows_);
  all_rows_ = table.all_rows;
  selected_ = std::min(selected_, all_rows_ - std::min<std::size_t>(all_rows_, 1));
  top_row_ = std::min({top_row_, selected_, all_rows_ - std::min(all_rows_, page_rows_)});
  if (selected_ >= top_row_ + page_rows_) top_row_ = selected_ + 1 - page_rows_;
  const TopLines text = lines_of(table, style, view_);
  if (table.rows.empty()) {
    result.emplace_back("  nothing was allocated yet");
    selected_key_ = model::kNoIndex;
    return result;
  }
  result.push_back(text.columns);
  selected_key_ = table.rows[selected_].key;
  selected_label_ = table.rows[selected_].name.label;
  for (std::size_t row = top_row_; row < std::min(text.rows.size(), top_row_ + page_rows_); ++row) {
    std::string line = text.rows[row];
    if (row == selected_) line.replace(0, 1, ">");  // every line begins with blanks
    result.push_back(std::move(line));
  }
  return result;
}

std::vector<std::string> TopScreen::stack_lines(const TextStyle& style) const {
  const TextPage page(style);
  std::vector<std::string> lines = {page.bold(page.clip(selected_label_, style.width))};
  const auto stacks = model_.stacks_of(by_, view_, selected_key_);
  if (stacks.empty()) lines.emplace_back(by_ == By::kThread ? "  no live blocks" : "  no stacks");
  std::uint64_t left_out_bytes = 0;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const auto& [node, figures] = stacks[i];
    if (i >= kMaxStacks) {
      left_out_bytes += figures.sums.live_bytes;
      continue;
    }
    lines.emplace_back();
    std::string text =
        render::human_bytes(figures.sums.live_bytes) + " live in " + render::block_count(figures.sums.live_blocks);
    if (by_ != By::kThread)
      text += ", " + render::human_bytes(static_cast<std::uint64_t>(std::llround(figures.bytes_per_s))) + "/s";
    lines.push_back(page.bold(page.clip("  " + text, style.width)));
    const auto frames = model_.tree().stack_names().stack(node);
    if (frames.empty()) lines.emplace_back("    (new stacks, not looked up yet)");
    for (const Frame& frame : frames) lines.push_back("    " + page.clip(one_line(frame), style.width - 4));
  }
  if (stacks.size() > kMaxStacks) {
    lines.emplace_back();
    lines.push_back(page.clip("  +" + render::exact_number(stacks.size() - kMaxStacks) + " more stacks, " +
                                  render::human_bytes(left_out_bytes) + " live",
                              style.width));
  }
  return lines;
}

bool TopScreen::press(KeyPress key) {
  if (key.key == Key::kNone) return true;
  message_.clear();
  switch (key.key) {
    case Key::kOther: return press_letter(key.character);
    case Key::kBack: page_ = Page::kTable; break;
    case Key::kEnter:
      if (page_ == Page::kTable) open_stacks();
      else page_ = Page::kTable;
      break;
    default: move(key.key); break;
  }
  return true;
}

bool TopScreen::press_letter(char letter) {
  switch (letter) {
    case 'q': return false;
    case 'j': move(Key::kDown); break;
    case 'k': move(Key::kUp); break;
    case '?':
    case 'h':
      page_ = Page::kHelp;
      top_line_ = 0;
      break;
    case 'g':
      by_ = after(kGroups, by_);
      selected_ = top_row_ = 0;
      page_ = Page::kTable;
      break;
    case 's': sort_ = after(kSorts, sort_); break;
    case 'o':
      view_.only_own = !view_.only_own;
      selected_ = top_row_ = 0;
      page_ = Page::kTable;
      break;
    case 'f': view_.full_names = !view_.full_names; break;
    case 'm': mark(); break;
    case 'p': message_ = send_(TopRequest::kPauseOrResume, {}); break;
    default: break;
  }
  return true;
}

void TopScreen::move(Key key) {
  std::size_t& at = page_ == Page::kTable ? selected_ : top_line_;
  // lines() limits what is too far.
  switch (key) {
    case Key::kUp: at -= std::min<std::size_t>(at, 1); break;
    case Key::kDown: ++at; break;
    case Key::kPageUp: at -= std::min(at, page_rows_); break;
    case Key::kPageDown: at += page_rows_; break;
    case Key::kHome: at = 0; break;
    case Key::kEnd: at = std::max<std::size_t>(all_rows_, 10'000); break;
    default: break;
  }
  if (page_ == Page::kTable) selected_ = std::min(selected_, all_rows_ - std::min<std::size_t>(all_rows_, 1));
}

void TopScreen::open_stacks() {
  if (selected_key_ != model::kNoIndex) page_ = Page::kStacks;
  top_line_ = 0;
}

void TopScreen::mark() {
  if (model_.ended()) {
    message_ = "the program has ended";
    return;
  }
  const std::string name = "top mark " + std::to_string(++marks_);
  model_.set_base(name);
  message_ = send_(TopRequest::kMark, name);
}

}  // namespace heapprof::cli
