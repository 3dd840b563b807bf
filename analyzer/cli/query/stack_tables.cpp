// The tables of stacks: what they cost, by stack and by call site, and their frames.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/tables.h"

namespace heapprof::cli {
namespace {

using query::Result;

constexpr query::Column kStackId = {"stack_id", "INTEGER", "id of the stack in these tables"};
constexpr query::Column kCallSiteId = {"call_site_id", "INTEGER", "id of the call site in these tables"};

struct StackCostRow {
  Recording& recording;
  const model::CallNode& call;
  std::uint32_t node;
  mutable std::optional<ViewName> made_name{};  ///< when a column of it is read

  const ViewName& name() const {
    if (!made_name) {
      const NamedStacks& named = recording.named();
      views::Row row;
      row.frame = named.site_frames[node];
      row.node = node;
      made_name = named.view.of_row(row, views::By::kStack);
    }
    return *made_name;
  }
};

struct CallSiteRow {
  Recording& recording;
  const views::Row& costs;
  std::uint32_t index;
  mutable std::optional<ViewName> made_name{};

  const ViewName& name() const {
    if (!made_name) made_name = recording.named().view.of_row(costs, views::By::kSite);
    return *made_name;
  }
};

/// The name of a call site, as in rows of `report --by`.
template <typename Row>
void add_site_name(std::vector<Field<Row>>& fields, const char* help) {
  fields.push_back(
      {{"name", "TEXT", help}, [](const Row& row, const Result& result) { put_text(result, row.name().name); }});
  fields.push_back({{"file", "TEXT", "source file of the call site; NULL: unknown"},
                    [](const Row& row, const Result& result) { put_text(result, row.name().file); }});
  fields.push_back({{"line", "INTEGER", "its line; NULL: unknown"}, [](const Row& row, const Result& result) {
                      if (row.name().line > 0) result.signed_number(row.name().line);
                    }});
  fields.push_back({{"module", "TEXT", "path of its program or library"},
                    [](const Row& row, const Result& result) { put_text(result, row.name().module); }});
  fields.push_back({{"origin", "TEXT", "own, third_party, standard, runtime or unknown"},
                    [](const Row& row, const Result& result) { result.text(row.name().origin); }});
}

std::unique_ptr<query::Table> make_stacks(Recordings& recordings) {
  using Row = StackCostRow;
  std::vector<Field<Row>> fields = {
      {kProcessId, [](const Row& row, const Result& result) { result.number(row.recording.process().id); }},
      {kStackId, [](const Row& row, const Result& result) { result.signed_number(row.recording.id_of(row.node)); }},
      {kCallSiteId,
       [](const Row& row, const Result& result) {
         const std::uint32_t site = row.recording.named().site_of_node[row.node];
         if (site != model::kNoIndex) result.signed_number(row.recording.id_of(site));
       }},
  };
  add_figures(fields, [](const Row& row) { return &row.call.costs; });
  fields.push_back({{"truncated", "TEXT", "why outer frames are missing; NULL: none are"},
                    [](const Row& row, const Result& result) {
                      if (row.call.truncated != nullptr) result.text(row.call.truncated);
                    }});
  add_site_name(fields, "the call site and its callers, without helpers: 'parse < read < main'");
  return std::make_unique<IndexedTable<Row>>(
      recordings,
      typename IndexedTable<Row>::Spec{
          .name = "stacks",
          .help = "One row for each call stack that allocated, with its figures: the rows of report --by stack",
          .fields = std::move(fields),
          .rows = 10'000,
          .count = [](Recording& recording) { return recording.stacks().size(); },
          .row =
              [](Recording& recording, std::size_t i) {
                const std::uint32_t node = recording.stacks()[i];
                return Row{recording, recording.profile().nodes[node], node};
              },
          .key = 1,
          .find = [](Recording& recording, std::uint32_t node) -> std::optional<std::size_t> {
            const std::vector<std::uint32_t>& stacks = recording.stacks();
            const auto at = std::lower_bound(stacks.begin(), stacks.end(), node);
            if (at == stacks.end() || *at != node) return std::nullopt;
            return at - stacks.begin();
          }});
}

std::unique_ptr<query::Table> make_call_sites(Recordings& recordings) {
  using Row = CallSiteRow;
  std::vector<Field<Row>> fields = {
      {kProcessId, [](const Row& row, const Result& result) { result.number(row.recording.process().id); }},
      {kCallSiteId,
       [](const Row& row, const Result& result) { result.signed_number(row.recording.id_of(row.index)); }},
      {{"stacks", "INTEGER", "number of stacks with this call site"},
       [](const Row& row, const Result& result) { result.number(row.recording.named().stacks_of_sites[row.index]); }},
  };
  add_figures(fields, [](const Row& row) { return &row.costs.self; });
  add_site_name(fields, "function of the call site");
  return std::make_unique<IndexedTable<Row>>(
      recordings,
      typename IndexedTable<Row>::Spec{
          .name = "call_sites",
          .help = "One row for each call site: function and line that allocated; the rows of report --by site",
          .fields = std::move(fields),
          .rows = 1'000,
          .count = [](Recording& recording) { return recording.named().sites.size(); },
          .row =
              [](Recording& recording, std::size_t i) {
                return Row{recording, recording.named().sites[i], static_cast<std::uint32_t>(i)};
              },
          .key = 1,
          .find = [](Recording& recording, std::uint32_t index) -> std::optional<std::size_t> {
            if (index >= recording.named().sites.size()) return std::nullopt;
            return index;
          }});
}

/// The texts of a frame, made once for the many stacks that have it.
struct WrittenFrame {
  std::string name, function, file, module;
  int line = 0;
  bool inlined = false;
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  const char* origin = "unknown";
};

class FramesTable : public query::Table {
 public:
  explicit FramesTable(Recordings& recordings) : recordings_(recordings) {}
  const char* name() const override { return "frames"; }
  const char* help() const override {
    return "The frames of the stacks, innermost first: one row for each frame of each stack";
  }
  std::span<const query::Column> columns() const override { return kColumns; }
  query::Estimate estimate(query::Columns equal, query::Columns) const override {
    if ((equal & query::bit_of(kStack)) != 0) return {30, 30};
    return {1e6, 1e6};
  }
  std::unique_ptr<query::Cursor> open(std::span<const query::Constraint> constraints, query::Columns) override {
    return std::make_unique<FrameCursor>(*this, constraints);
  }

 private:
  enum : int {
    kProcess,
    kStack,
    kPosition,
    kFrame,
    kName,
    kFunction,
    kModuleId,
    kModule,
    kFile,
    kLine,
    kInlined,
    kOffset,
    kAddress,
    kOrigin,
    kIsCallSite,
  };
  static constexpr query::Column kColumns[] = {
      kProcessId,
      kStackId,
      {"position", "INTEGER", "0: the innermost frame"},
      {"frame_id", "INTEGER", "id of the frame in these tables; several stacks can have it"},
      {"name", "TEXT", "the function, or libfoo.so+0x12 where it is unresolved"},
      {"function", "TEXT", "name of the function; NULL: unresolved"},
      {"module_id", "INTEGER", "id of its program or library"},
      {"module", "TEXT", "path of its program or library"},
      {"file", "TEXT", "source file; NULL: unknown"},
      {"line", "INTEGER", "source line; NULL: unknown"},
      {"inlined", "INTEGER", "1: the function is inlined into the next frame"},
      {"offset", "INTEGER", "address of the call in the file of the module"},
      {"address", "INTEGER", "address of the call in the recorded process"},
      {"origin", "TEXT", "own, third_party, standard, runtime or unknown"},
      {"is_call_site", "INTEGER", "1: the frame is the call site of the stack"},
  };

  class FrameCursor : public query::Cursor {
   public:
    FrameCursor(FramesTable& table, std::span<const query::Constraint> constraints)
        : table_(table), constraints_(constraints.begin(), constraints.end()),
          processes_(processes_asked(table.recordings_, constraints, kStack)) {}

    bool next() override {
      if (position_ + 1 < frames_.size()) {
        ++position_;
        return true;
      }
      for (;;) {
        while (at_ == end_) {
          if (process_ == processes_.size()) return false;
          begin(processes_[process_++]);
        }
        node_ = asked_ ? (*asked_)[at_] : recording_->stacks()[at_];
        ++at_;
        if (asked_ && !std::binary_search(recording_->stacks().begin(), recording_->stacks().end(), node_)) continue;
        frames_ = recording_->named().findings.frames().stack(node_);
        position_ = 0;
        if (!frames_.empty()) return true;
      }
    }

    void column(int column, const Result& result) const override {
      const findings::FrameRef frame = frames_[position_];
      switch (column) {
        case kProcess: return result.number(recording_->process().id);
        case kStack: return result.signed_number(recording_->id_of(node_));
        case kPosition: return result.number(position_);
        case kFrame: return result.signed_number(recording_->id_of(number_of(frame)));
        case kModuleId:
          return result.signed_number(recording_->id_of(recording_->profile().addresses[frame.address].module));
        case kIsCallSite: return result.boolean(frame == recording_->named().site_frames[node_]);
        default: break;
      }
      const WrittenFrame& texts = texts_of(frame);
      switch (column) {
        case kName: return result.text(texts.name);
        case kFunction: return result.text_or_null(texts.function);
        case kModule: return result.text_or_null(texts.module);
        case kFile: return result.text_or_null(texts.file);
        case kLine: return texts.line > 0 ? result.signed_number(texts.line) : void();
        case kInlined: return result.boolean(texts.inlined);
        case kOffset: return result.number(texts.offset);
        case kAddress: return result.number(texts.address);
        case kOrigin: return result.text(texts.origin);
        default: return;
      }
    }
    /// Of the process, the stack and the position: stacks have fewer than 65,536 frames, recordings fewer than 2^30
    /// stacks.
    std::int64_t row_id() const override {
      return static_cast<std::int64_t>(recording_->process().id - 1) << 46 | static_cast<std::int64_t>(node_) << 16 |
             static_cast<std::int64_t>(position_);
    }

   private:
    void begin(std::uint32_t id) {
      recording_ = table_.recordings_.recording(id);
      asked_ = indexes_asked(constraints_, kStack, recording_->process());
      at_ = 0;
      end_ = asked_ ? asked_->size() : recording_->stacks().size();
    }
    /// Frames of one address have numbers that follow each other.
    std::uint32_t number_of(findings::FrameRef frame) const {
      if (table_.numbered_.lock() != recording_) {
        const findings::CodeFrames& frames = recording_->named().findings.frames();
        table_.first_of_address_.assign(1, 0);
        for (std::uint32_t i = 0; i < recording_->profile().addresses.size(); ++i)
          table_.first_of_address_.push_back(table_.first_of_address_.back() +
                                             static_cast<std::uint32_t>(frames.functions_at(i).size()));
        table_.texts_.clear();
        table_.numbered_ = recording_;
      }
      return table_.first_of_address_[frame.address] + frame.index;
    }
    const WrittenFrame& texts_of(findings::FrameRef frame) const {
      const auto [at, fresh] = table_.texts_.try_emplace(number_of(frame));
      WrittenFrame& texts = at->second;
      if (!fresh) return texts;
      const NamedStacks& named = recording_->named();
      const ViewName name = named.view.of_frame(frame, true);
      const Frame whole = named.findings.frame(frame);
      texts.name = render::clean_utf8(name.name);
      texts.function = render::clean_utf8(whole.function);
      texts.file = render::clean_utf8(whole.file);
      texts.module = render::clean_utf8(name.module);
      texts.line = whole.line;
      texts.inlined = whole.inlined;
      texts.offset = whole.offset;
      texts.address = whole.address;
      texts.origin = name.origin;
      return texts;
    }

    FramesTable& table_;
    const std::vector<query::Constraint> constraints_;
    const std::vector<std::uint32_t> processes_;
    std::size_t process_ = 0;
    std::shared_ptr<Recording> recording_;
    std::optional<std::vector<std::uint32_t>> asked_;  ///< nodes; nullopt: all stacks
    std::size_t at_ = 0;                               ///< the next stack
    std::size_t end_ = 0;
    std::uint32_t node_ = 0;
    std::vector<findings::FrameRef> frames_;
    std::size_t position_ = 0;
  };

  Recordings& recordings_;
  // Of the recording that was read last.
  std::weak_ptr<Recording> numbered_;
  std::vector<std::uint32_t> first_of_address_;
  std::unordered_map<std::uint32_t, WrittenFrame> texts_;  ///< by number of the frame
};

}  // namespace

void add_stack_tables(Recordings& recordings, Tables& tables) {
  tables.push_back(make_stacks(recordings));
  tables.push_back(make_call_sites(recordings));
  tables.push_back(std::make_unique<FramesTable>(recordings));
}

}  // namespace heapprof::cli
