#include "analyzer/cli/commands/where_memory_went/blocks_output.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/export/sink.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::exact_number;
using views::BlockOrder;
using views::ListedBlock;

const char* name_of(BlockOrder order) {
  return order == BlockOrder::kSize ? "size" : order == BlockOrder::kAge ? "age" : "address";
}

/// The call site of a node's stack.
ViewName site_of(const BlockList& list, const ViewNames& names, std::uint32_t node) {
  return names.of_frame(findings::call_site_of(list.findings.frames(), list.findings.helpers(), node), true);
}

/// Text that `make(node)` returns, made once for each stack: many blocks share one.
template <typename Make>
class TextByNode {
 public:
  explicit TextByNode(Make make) : make_(std::move(make)) {}
  const std::string& of(std::uint32_t node) {
    const auto [known, fresh] = texts_.try_emplace(node);
    if (fresh) known->second = make_(node);
    return known->second;
  }

 private:
  Make make_;
  std::unordered_map<std::uint32_t, std::string> texts_;
};

/// Numbers stacks, and the frames in them, in the order in which they are first asked for.
class StackNumbers {
 public:
  explicit StackNumbers(const StackNames& names) : names_(names) {}

  std::size_t of(std::uint32_t node) {
    const auto [known, fresh] = numbers_.try_emplace(node, stacks_.size());
    if (fresh) stacks_.push_back(node);
    return known->second;
  }
  const std::vector<std::uint32_t>& stacks() const noexcept { return stacks_; }

  /// The positions in frames() of the stack's frames, innermost first.
  Json frames_of(std::uint32_t stack) {
    Json positions = Json::array();
    names_.for_each_node(stack, [&](std::uint32_t node, std::uint32_t key) {
      const auto [known, fresh] = first_frame_.try_emplace(key, FrameRange{frames_, 0});
      if (fresh) {
        known->second.count = names_.frames_of_node(node).size();
        frames_ += known->second.count;
        nodes_.push_back(node);
      }
      for (std::size_t i = 0; i < known->second.count; ++i) positions.push_back(known->second.first + i);
    });
    return positions;
  }
  /// The nodes whose frames, one after the other, are the list of frames. Call after the last frames_of().
  const std::vector<std::uint32_t>& nodes_of_frames() const noexcept { return nodes_; }

 private:
  struct FrameRange {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  const StackNames& names_;
  std::unordered_map<std::uint32_t, std::size_t> numbers_;     ///< by node
  std::vector<std::uint32_t> stacks_;                          ///< nodes
  std::unordered_map<std::uint32_t, FrameRange> first_frame_;  ///< by key of StackNames::for_each_node()
  std::size_t frames_ = 0;
  std::vector<std::uint32_t> nodes_;
};

/// Writes the items of a JSON list, one in each line.
class JsonList {
 public:
  JsonList(exporter::Sink& out, const char* name) : out_(out) { out_.write(",\n  \"" + std::string(name) + "\": ["); }
  void item(std::string_view text) {
    out_.write(std::exchange(any_, true) ? ",\n    " : "\n    ");
    out_.write(text);
  }
  void end() { out_.write(any_ ? "\n  ]" : "]"); }

 private:
  exporter::Sink& out_;
  bool any_ = false;
};

std::string thread_label(const model::Profile& profile, std::uint32_t index) {
  if (index >= profile.threads.size()) return "(unknown)";
  const model::Thread& thread = profile.threads[index];
  return (thread.name.empty() ? "(no name)" : clean_utf8(thread.name)) + " " + std::to_string(thread.tid);
}

std::string address_text(const model::Profile& profile, std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, profile.recording.rounded ? "#%" PRIu64 : "0x%" PRIx64, address);
  return text;
}

/// "at 1.20 s" in words: which moment the list is of.
std::string moment_words(const BlockList& list) {
  if (!list.profile.live_at_ns) return live_words(list.profile);
  std::string text = "Live at " + render::human_time(list.at_ns);
  if (list.profile.slice) text += ", with the blocks from before the slice";
  return text;
}

/// "Blocks 1 to 20 of 1,234, largest first".
std::string page_words(const BlockList& list) {
  const std::size_t first = list.options.skip + 1;
  std::string text = list.profile.kind == model::Kind::kMmap ? "Mappings" : "Blocks";
  if (list.page.size() < list.all.blocks)
    text += " " + exact_number(first) + " to " + exact_number(first + list.page.size() - 1) + " of " +
            exact_number(list.all.blocks);
  switch (list.options.order) {
    case BlockOrder::kSize: return text + ", largest first";
    case BlockOrder::kAge: return text + ", oldest first";
    case BlockOrder::kAddress: return text + (list.profile.recording.rounded ? ", by number" : ", by address");
  }
  return text;
}

void append_table(ReportText& text, const BlockList& list) {
  const ViewNames view_names(list.profile, list.findings);
  const bool several_threads = list.profile.threads.size() > 1;
  std::unordered_map<std::uint32_t, ViewName> sites;
  std::vector<std::vector<Cell>> rows;
  for (const ListedBlock& block : list.page) {
    const auto [site, fresh] = sites.try_emplace(block.node);
    if (fresh) site->second = site_of(list, view_names, block.node);
    const ViewName& name = site->second;
    rows.push_back({{exact_number(block.size_bytes), TextColour::kBold},
                    {render::percent(block.size_bytes, list.all.bytes)},
                    {list.has_age(block) ? render::human_time(list.age_ns(block)) : ""},
                    {address_text(list.profile, block.address)},
                    {several_threads ? render::clip_utf8(thread_label(list.profile, block.thread), 20) : ""},
                    {name.label, name.is_own ? std::optional(TextColour::kBold) : std::nullopt},
                    {name.location, TextColour::kDim}});
  }
  using Kind = Column::Kind;
  write_columns(text,
                {{"bytes"},
                 {"share", Kind::kFigure, 3},
                 {"age", Kind::kFigure, list.options.order == BlockOrder::kAge ? 0 : 1},
                 {list.profile.recording.rounded ? "block" : "address"},
                 {"thread", Kind::kText, 2},
                 {"call site", Kind::kFunction},
                 {"location", Kind::kLocation}},
                rows);
}

/// What the page leaves out.
void append_rest(ReportText& text, const BlockList& list) {
  const std::uint64_t shown = list.page.size();
  if (shown == list.all.blocks) return;
  std::uint64_t bytes = 0;
  for (const ListedBlock& block : list.page) bytes += block.size_bytes;
  const std::size_t end = list.options.skip + shown;
  const std::string rest =
      exact_number(list.all.blocks - shown) + " more, " + render::human_bytes(list.all.bytes - bytes);
  if (end < list.all.blocks)
    text.line("  +" + rest + "; --skip " + std::to_string(end) + " prints the next" +
              (list.options.skip == 0 ? "; --top 0 prints all" : ""));
  else text.line("  +" + rest + " before these");
}

/// The stacks of the page's blocks, in the order of the rows.
void append_stacks(ReportText& text, const BlockList& list) {
  std::vector<std::uint32_t> stacks;
  std::unordered_map<std::uint32_t, views::BlockSums> sums;
  for (const ListedBlock& block : list.page) {
    views::BlockSums& sum = sums[block.node];
    if (sum.blocks++ == 0) stacks.push_back(block.node);
    sum.bytes += block.size_bytes;
  }
  const std::size_t shown = list.options.stacks == 0 ? stacks.size() : std::min(list.options.stacks, stacks.size());
  if (shown == 0) return;
  text.heading(shown == stacks.size() ? "Their stacks"
                                      : "Their stacks (" + exact_number(shown) + " of " +
                                            exact_number(stacks.size()) + "; --stacks 0 prints all)");
  for (std::size_t i = 0; i < shown; ++i) {
    const views::BlockSums& sum = sums[stacks[i]];
    text.stack(i + 1,
               render::human_bytes(sum.bytes) + " in " + count_of_kind(list.profile, sum.blocks) + " of this list",
               stacks[i], list.names);
  }
}

}  // namespace

void write_blocks_json(const BlockList& list) {
  const model::Profile& profile = list.profile;
  Json json = head_json(profile);
  json["at_ns"] = list.at_ns;
  json["kind"] = kind_word(profile.kind);
  json["sort"] = name_of(list.options.order);
  json["total"] = {{"bytes", list.all.bytes}, {"blocks", list.all.blocks}};
  json["skipped"] = std::min<std::uint64_t>(list.options.skip, list.all.blocks);
  Json& threads = json["threads"] = Json::array();
  for (std::size_t index = 0; index < profile.threads.size(); ++index)
    threads.push_back({{"index", index}, {"tid", profile.threads[index].tid}, {"name", profile.threads[index].name}});
  json["symbol_warnings"] = list.names.warnings();
  std::string head = dump(json);
  head.resize(head.size() - std::strlen("\n}\n"));

  const ViewNames view_names(profile, list.findings);
  StackNumbers stacks(list.names);
  TextByNode site_texts([&](std::uint32_t node) {
    Json site = name_json(site_of(list, view_names, node));
    site["stack"] = stacks.of(node);
    return line_of(site).substr(1);  // without the brace that opens it
  });
  exporter::Sink out(list.options.trace.output);
  out.write(head);
  JsonList blocks(out, "blocks");
  for (const ListedBlock& block : list.page) {
    if (!out.ok()) break;
    std::string row = "{\"address\":";
    row += profile.recording.rounded ? "null,\"number\":" + std::to_string(block.address)
                                     : std::to_string(block.address);
    row += ",\"size_bytes\":" + std::to_string(block.size_bytes);
    if (list.has_age(block))
      row +=
          ",\"allocated_ns\":" + std::to_string(block.time_ns) + ",\"age_ns\":" + std::to_string(list.age_ns(block));
    else row += ",\"allocated_ns\":null,\"age_ns\":null";
    row += ",\"thread\":" + (block.thread < profile.threads.size() ? std::to_string(block.thread) : "null") + ",";
    blocks.item(row + site_texts.of(block.node));
  }
  blocks.end();
  JsonList stack_list(out, "stacks");
  for (const std::uint32_t stack : stacks.stacks()) {
    const char* const truncated = profile.nodes[stack].truncated;
    stack_list.item(line_of({{"truncated", truncated == nullptr ? Json(nullptr) : Json(truncated)},
                             {"frames", stacks.frames_of(stack)}}));
  }
  stack_list.end();
  JsonList frames(out, "frames");
  for (const std::uint32_t node : stacks.nodes_of_frames())
    for (const Frame& frame : list.names.frames_of_node(node)) frames.item(line_of(frame_json(frame)));
  frames.end();
  out.write("\n}\n");
  if (!out.close()) throw OutputError(out.error());
}

void write_blocks_csv(const BlockList& list) {
  const model::Profile& profile = list.profile;
  const ViewNames view_names(profile, list.findings);
  const auto append_text = [](std::string& line, const std::string& text) {
    render::append_csv(line, clean_utf8(text));
    line += ',';
  };
  TextByNode site_texts([&](std::uint32_t node) {
    const ViewName name = site_of(list, view_names, node);
    std::string text;
    append_text(text, name.name);
    append_text(text, name.file);
    if (name.line > 0) text += std::to_string(name.line);
    text += ',';
    append_text(text, name.module);
    return text + name.origin + "\n";
  });
  exporter::Sink out(list.options.trace.output);
  out.write("address,size_bytes,allocated_ns,age_ns,tid,thread,name,file,line,module,origin\n");
  for (const ListedBlock& block : list.page) {
    if (!out.ok()) break;
    std::string line = std::to_string(block.address) + "," + std::to_string(block.size_bytes) + ",";
    if (list.has_age(block)) line += std::to_string(block.time_ns) + "," + std::to_string(list.age_ns(block));
    else line += ',';
    line += ',';
    if (block.thread < profile.threads.size()) {
      line += std::to_string(profile.threads[block.thread].tid) + ",";
      append_text(line, profile.threads[block.thread].name);
    } else {
      line += ",,";
    }
    out.write(line + site_texts.of(block.node));
  }
  if (!out.close()) throw OutputError(out.error());
}

namespace {

/// The cost of other commands that is about the blocks of this list: at --live-at the default is.
std::string moment_cost(const BlockList& list) {
  return list.options.trace.texts.live_at.empty() ? cost_words(Cost::kLeaked) : std::string();
}

}  // namespace

std::string blocks_text(const BlockList& list) {
  const model::Profile& profile = list.profile;
  ReportText text(profile, style_for(list.options.trace.output, list.options.frames), &list.findings);
  text.title(ReportText::Title::kWithoutEvents).line();
  const std::string whole = moment_words(list) + ": " + render::human_bytes(list.all.bytes) + " in " +
                            count_of_kind(profile, list.all.blocks) +
                            (list.all.blocks == 0 ? "." : "; shares are of this.");
  for (const std::string& piece : render::wrapped(whole, text.style().width)) text.line(piece);
  if (list.all.blocks != 0) {
    if (list.page.empty()) {
      text.line("There is no block after the first " + exact_number(list.options.skip) + "; give a smaller --skip.");
    } else {
      text.heading(page_words(list));
      append_table(text, list);
      append_rest(text, list);
      append_stacks(text, list);
      const findings::FrameRef site =
          findings::call_site_of(list.findings.frames(), list.findings.helpers(), list.page.front().node);
      NextCommands next(list.options.trace);
      if (site.exists())
        next.add("Callers of the first call site", "callers",
                 ViewNames(profile, list.findings).of_frame(site, false).label, moment_cost(list));
      next.add("By call site", "report", {},
               "--by site" + (moment_cost(list).empty() ? "" : " " + moment_cost(list)));
      next.write(text);
    }
  }
  text.notes(list.names.warnings());
  return text.text();
}

}  // namespace heapprof::cli
