// heapprof html: the page of `serve` in one file, with the answers to the questions that it asks. They come from the
// same processes as those of the server, so they are the same.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/browser/answer_subject.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/shared/trace_state.h"
#include "analyzer/cli/text/held_content.h"
#include "analyzer/render/units.h"
#include "analyzer/serve/answer_fitter.h"
#include "analyzer/serve/answers.h"
#include "analyzer/serve/page.h"
#include "analyzer/serve/page_questions.h"

namespace heapprof::cli {
namespace {

using Json = nlohmann::ordered_json;
using serve::AnswerFitter;
using serve::PageGroup;
using serve::PageQuestion;

/// An answer that takes more than this share of the file is asked for with less detail. Those that every view needs
/// may take more.
constexpr std::uint64_t kMaxShare = 8;

/// Kept for what is known last: up to four sentences of 170 bytes about each of eleven groups of answers, and one
/// about the recording.
constexpr std::uint64_t kMaxSentenceBytes = 8000;

/// What a file of so many bytes is called as a value of --max-size: at least as many.
std::string size_value(std::uint64_t bytes) { return std::to_string((bytes + 1023) / 1024) + "K"; }

/// Prints on a terminal how many questions are answered, and how far the index is.
class QuestionProgress {
 public:
  ~QuestionProgress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void show(std::size_t answered, std::uint64_t bytes, const std::string& about) {
    print(std::to_string(answered) + " answers, " + render::human_bytes(bytes) + ": " + about);
  }
  void show_index(const serve::ChildProgress& progress) {
    print("writing the index: " + std::to_string(static_cast<int>(progress.share * 100)) + "%, " +
          render::exact_number(progress.events) + " events");
  }

 private:
  void print(const std::string& line) {
    if (::isatty(STDERR_FILENO) == 0) return;
    shown_ = true;
    std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
    std::fflush(stderr);
  }

  bool shown_ = false;
};

/// A recording of at least so many bytes of frames gets an index in the cache first: reading it once more takes less
/// time than reading it whole for most of a hundred answers.
constexpr std::uint64_t kMinBytesForIndex = 256 << 10;

/// How many questions are answered at once: each process takes a core, and memory for the recording.
std::size_t processes_at_once() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), serve::Answers::kMaxRunning,
                                 serve::Answers::kMaxProcesses);
}

/// Several questions are answered at once, after the index of the recording was written.
class Asker {
 public:
  /// An answer that may not be known yet.
  using Pending = std::shared_ptr<std::optional<serve::Answer>>;

  Asker(const HtmlOptions& options, QuestionProgress& progress)
      : subject_(answer_subject({options.trace.trace}, options.answers)), progress_(progress),
        answers_(
            context_, [trace = options.trace.trace](std::size_t) { return state_of(trace); },
            [trace = options.trace.trace](std::size_t) { return index_words(trace, kMinBytesForIndex); }, false,
            processes_at_once()) {}

  const serve::Subject& subject() const noexcept { return subject_; }

  Pending begin(const PageQuestion& one) {
    const auto pending = std::make_shared<std::optional<serve::Answer>>();
    const auto question = serve::question_of(one.command, one.parameters, subject_);
    if (const auto* const refusal = std::get_if<serve::Refusal>(&question)) {
      *pending = serve::error_answer(400, refusal->reason);
      (*pending)->is_refusal = true;
    } else {
      answers_.ask(std::get<serve::Question>(question),
                   [pending](const serve::Answer& answer) { *pending = answer; });
    }
    return pending;
  }
  /// Meanwhile, the others that were begun are answered as well.
  serve::Answer wait(const Pending& pending) {
    constexpr std::chrono::milliseconds kStep{200};
    while (!*pending) {
      context_.restart();  // it stops when everything that was begun is answered
      context_.run_one_for(kStep);
      for (const serve::Answers::Running& one : answers_.running())
        if (one.command == "index") progress_.show_index(one.progress);
    }
    return **pending;
  }
  serve::Answer ask(const PageQuestion& question) { return wait(begin(question)); }

 private:
  boost::asio::io_context context_{1};
  serve::Subject subject_;
  QuestionProgress& progress_;
  serve::Answers answers_;
};

/// The sentence of an answer that is an error.
std::string error_of(const serve::Answer& answer) { return Json::parse(*answer.body).value("error", std::string()); }

/// The content of the file, as far as it is collected.
class Collection {
 public:
  explicit Collection(const HtmlOptions& options)
      : options_(options), asker_(options, progress_), page_bytes_(page().size()) {}

  /// Throws OutputError if the trace cannot be read, or the file would be too large even without most answers.
  void collect() {
    const bool was_running = is_running(options_.trace.trace);
    const PageGroup whole = serve::whole_questions();
    const auto figures = std::ranges::find(whole.questions, "report", &PageQuestion::command);
    const auto info = std::ranges::find(whole.questions, "info", &PageQuestion::command);
    take_required({*figures, *info});
    is_complete_ = Json::parse(answers_.at(figures->key())).at("integrity").at("complete").get<bool>();
    take(whole);
    if (options_.sources) take(serve::source_questions(source_files()));
    const serve::PageMoments moments = moments_of(Json::parse(answers_.at(figures->key())));
    compared_ = serve::compared_moments(moments);
    used_ += size_of(compared_.before, compared_.after);
    take(serve::row_questions());
    take(serve::variant_questions(compared_));
    if (has_free_stacks(Json::parse(answers_.at(figures->key())))) take(serve::free_questions());
    for (const PageGroup& group : serve::part_questions(moments)) take(group);
    if (!has_all_stacks()) take(serve::other_stack_questions());
    take(serve::part_row_questions(moments));
    take(serve::part_stack_questions(moments));
    if (was_running) add_times(moments.duration_ns, *info);
  }

  std::string page() const {
    Json about;
    about["format_version"] = 1;
    about["trace"] = options_.trace.trace.substr(options_.trace.trace.rfind('/') + 1);
    about["holds"] = holds();
    about["pruned"] = pruned_;
    about["compared"] = {{"before", compared_.before}, {"after", compared_.after}};
    Json& options = about["options"] = Json::object();
    for (const serve::CommandWords& one : serve::words_of_answers(asker_.subject()))
      options[std::string(one.command)] = one.words;
    std::string text = about.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.pop_back();
    text += ",\"answers\":{";
    bool is_first = true;
    for (const auto& [key, answer] : answers_) {
      text += (is_first ? "\n" : ",\n") + Json(key).dump() + ":" + answer;
      is_first = false;
    }
    return serve::page_with_answers(text + "}}");
  }

  std::vector<std::string> holds() const {
    return held_words({options_.sources, options_.command_line, command_line_omitted_});
  }
  /// What `report` prints about the recording beside its figures; empty: nothing.
  const std::string& warnings() const noexcept { return warnings_; }
  bool is_complete() const noexcept { return is_complete_; }
  /// What the file lacks, and why.
  const std::vector<std::string>& missing() const noexcept { return missing_; }
  /// Whether the file lacks an answer that should be in it.
  bool has_failed() const noexcept { return has_failed_; }

 private:
  /// Bytes that are left. "<" becomes six bytes in the file, which can exceed the limit by that: answers are counted
  /// with it.
  std::uint64_t room() const { return options_.max_bytes - std::min(options_.max_bytes, needed()); }
  /// Bytes of the file with the answers that it has.
  std::uint64_t needed() const { return page_bytes_ + used_ + kMaxSentenceBytes; }
  static std::uint64_t size_of(const std::string& key, const std::string& text) {
    const auto escaped = [](const std::string& one) {
      return one.size() + 5 * static_cast<std::uint64_t>(std::count(one.begin(), one.end(), '<'));
    };
    return escaped(key) + escaped(text) + 8;
  }

  /// A question whose answer is awaited.
  struct Asked {
    const PageQuestion* question = nullptr;
    AnswerFitter::Attempt attempt;
    Asker::Pending answer;
  };

  /// Takes the answers without which no view has figures. Throws OutputError if one is missing: the other questions
  /// would fail for the same reason.
  void take_required(const std::vector<PageQuestion>& questions) {
    for (const PageQuestion& question : questions) {
      const serve::Answer answer = asker_.ask(question);
      if (answer.is_too_large)
        throw OutputError(options_.trace.trace + ": 'heapprof " + question.command + "' prints more than " +
                          render::human_bytes(serve::Answers::kMaxAnswerBytes) + ", which is too much for a file");
      if (answer.status != 200) throw OutputError(error_of(answer));
      if (question.command == "report") warnings_ = answer.messages;
      const std::string key = question.key();
      std::optional<AnswerFitter::Answered> figures = answered(key, question, answer);
      used_ += figures->bytes;
      answers_.emplace(key, std::move(figures->text));
    }
    if (needed() > options_.max_bytes)
      throw OutputError("--max-size " + render::human_bytes(options_.max_bytes) + ": the page itself has " +
                        render::human_bytes(page_bytes_) + ", and its main figures have " +
                        render::human_bytes(used_) + "; give at least " + size_value(needed()));
  }

  /// While an answer is awaited, the next ones are computed.
  void take(const PageGroup& group) {
    constexpr std::size_t kMaxAsked = 2 * serve::Answers::kMaxProcesses;
    std::deque<Asked> asked;  // in the order of their importance
    std::size_t omitted = 0, coarser = 0, huge = 0, failed = 0;
    std::set<std::string> reasons;  // of those that failed
    for (std::size_t next = 0; next < group.questions.size() || !asked.empty();) {
      if (next < group.questions.size() && asked.size() < kMaxAsked) {
        const PageQuestion& question = group.questions[next++];
        if (answers_.contains(question.key())) continue;
        constexpr std::uint64_t kMinRoom = 1000;  // less room holds no answer
        if (room() < kMinRoom || fitter_.is_hopeless(question, room())) {
          ++omitted;
        } else {
          AnswerFitter::Attempt attempt = fitter_.first_attempt(question);
          Asker::Pending answer = asker_.begin(attempt.question);
          asked.push_back({&question, std::move(attempt), std::move(answer)});
        }
        continue;
      }
      progress_.show(answers_.size(), page_bytes_ + used_, group.about);
      const std::size_t left = asked.size() + group.questions.size() - next;
      const Asked first = std::move(asked.front());
      asked.pop_front();
      const std::uint64_t limit = group.divides_room ? room() / left : room();
      switch (take(first, asker_.wait(first.answer), std::min(limit, options_.max_bytes / kMaxShare))) {
        case Taken::kWhole: break;
        case Taken::kCoarser: ++coarser; break;
        case Taken::kNot: ++omitted; break;
        case Taken::kHuge: ++huge; break;
        case Taken::kFailed:
          ++failed;
          reasons.insert(failure_);
          break;
      }
    }
    const std::string all = " of " + std::to_string(group.questions.size()) + " answers about " + group.about;
    const std::string limit = ", to keep the file below " + render::human_bytes(options_.max_bytes);
    if (coarser != 0) prune(std::to_string(coarser) + all + " have only their largest rows" + limit);
    if (omitted != 0) prune(std::to_string(omitted) + all + " were left out" + limit);
    if (huge != 0)
      prune(std::to_string(huge) + all + " were left out, since each has more than " +
            render::human_bytes(serve::Answers::kMaxAnswerBytes));
    if (failed == 0) return;
    has_failed_ = true;
    std::string why;
    for (const std::string& reason : reasons) why += (why.empty() ? ": " : "; ") + reason;
    prune(std::to_string(failed) + all + " failed", why);
  }

  /// The program went on while its answers were computed, the first one at `first_ns`.
  void add_times(std::uint64_t first_ns, const PageQuestion& info) {
    const serve::Answer last = asker_.ask(info);
    const std::uint64_t last_ns =
        last.status == 200 ? Json::parse(*last.body).value("duration_ns", first_ns) : first_ns;
    prune("the program ran while this file was written; its answers are of different moments, from " +
          render::human_time(first_ns) + " to " + render::human_time(last_ns) + " of the recording");
  }

  /// Adds to what the file says that it lacks. `why` can be long, and is only printed.
  void prune(const std::string& sentence, const std::string& why = {}) {
    pruned_.push_back(sentence);
    missing_.push_back(sentence + why);
  }

  enum class Taken {
    kWhole,
    kCoarser,
    kNot,     ///< there is no room for it
    kHuge,    ///< it has more than Answers::kMaxAnswerBytes
    kFailed,  ///< `failure_` has the reason
  };
  /// `answer`: of the attempt. `limit`: bytes.
  Taken take(const Asked& asked, const serve::Answer& answer, std::uint64_t limit) {
    const PageQuestion& question = *asked.question;
    const std::string key = question.key();
    failure_.clear();
    AnswerFitter::Result result =
        fitter_.fit(question, asked.attempt, answered(key, question, answer), limit,
                    [&](const PageQuestion& other) { return answered(key, question, asker_.ask(other)); });
    if (result.is_too_large) return last_is_huge_ ? Taken::kHuge : Taken::kNot;
    if (!result.answer && !failure_.empty()) return Taken::kFailed;
    // A question that has no answer, such as the growth of a recording without leaks, is no part of the page.
    if (!result.answer) return Taken::kWhole;
    if (answers_.emplace(key, std::move(result.answer->text)).second) used_ += result.answer->bytes;
    return result.is_coarser ? Taken::kCoarser : Taken::kWhole;
  }

  /// The answer as the file has it. None: it is an error. Unless there is no such answer, `failure_` has the reason.
  std::optional<AnswerFitter::Answered> answered(const std::string& key, const PageQuestion& question,
                                                 const serve::Answer& answer) {
    last_is_huge_ = answer.is_too_large;
    if (answer.is_too_large) return AnswerFitter::Answered{{}, serve::Answers::kMaxAnswerBytes, true};
    if (answer.status != 200) {
      // Every command refuses a recording that was deleted meanwhile.
      const bool is_deleted = ::access(options_.trace.trace.c_str(), F_OK) != 0;
      if (!answer.is_refusal || is_deleted) failure_ = error_of(answer);
      return std::nullopt;
    }
    std::string text = *answer.body;
    while (text.ends_with('\n')) text.pop_back();
    if (question.command == "info") {
      command_line_omitted_ = Json::parse(text).value("command_line_omitted", false);
      if (!options_.command_line) text = without_arguments(text);
    }
    const std::uint64_t bytes = size_of(key, text);
    return AnswerFitter::Answered{std::move(text), bytes};
  }

  static std::string without_arguments(const std::string& text) {
    Json info = Json::parse(text);
    const Json& arguments = info["command_line"];
    if (arguments.is_array() && !arguments.empty()) info["command_line"] = Json::array({arguments.front()});
    else if (arguments.is_string()) info["command_line"] = info["program"];
    info["command_line_omitted"] = true;
    return info.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  /// `report`: its answer about the whole recording. As free_stacks_recorded() in
  /// analyzer/cli/commands/where_memory_went/frees.cpp.
  static bool has_free_stacks(const Json& report) {
    const auto settings = report.find("settings");
    if (settings == report.end()) return false;
    const std::string value = settings->value("HEAPPROF_FREE_STACKS", std::string("0"));
    return value != "0" && value != "off" && value != "no";
  }

  /// `report`: its answer about the whole recording.
  serve::PageMoments moments_of(const Json& report) const {
    const auto number = [](const Json& from, const char* key) {
      const auto at = from.find(key);
      return at != from.end() && at->is_number() ? at->get<std::uint64_t>() : std::uint64_t{0};
    };
    const Json& heap = report.at("heap");
    return {number(report, "duration_ns"), number(heap, "peak_time_ns"), number(heap, "peak_bytes"),
            number(heap, "leaked_bytes"), marks()};
  }

  /// From the answer of the timeline.
  std::vector<serve::PageMark> marks() const {
    std::vector<serve::PageMark> found;
    for (const auto& [key, answer] : answers_) {
      if (!key.starts_with("timeline?")) continue;
      const Json timeline = Json::parse(answer);
      if (!timeline.contains("marks")) continue;
      for (const Json& mark : timeline["marks"])
        found.push_back({mark.value("time_ns", std::uint64_t{0}), mark.value("text", std::string())});
      break;
    }
    return found;
  }

  /// Whether the answer with the stacks of the peak has all of the recording.
  bool has_all_stacks() const {
    const auto answer = answers_.find(serve::stack_question().key());
    if (answer == answers_.end()) return false;
    const Json stacks = Json::parse(answer->second);
    return stacks.at("rows").size() >= stacks.at("all_rows").get<std::size_t>();
  }

  /// The files that the list of source files names, those with most bytes first.
  std::vector<std::string> source_files() const {
    std::vector<std::string> files;
    for (const auto& [key, answer] : answers_) {
      if (!key.starts_with("source?") || key.find("arg=") != std::string::npos) continue;
      const Json list = Json::parse(answer);
      for (const Json& file : list["files"])
        if (file.contains("file") && file["file"].is_string()) files.push_back(file["file"]);
      break;
    }
    return files;
  }

  const HtmlOptions& options_;
  QuestionProgress progress_;
  Asker asker_;
  std::uint64_t used_ = 0;
  std::map<std::string, std::string> answers_;
  AnswerFitter fitter_;
  std::string warnings_;
  bool is_complete_ = true;    ///< the recording
  std::string failure_;        ///< of the last answer that failed
  bool last_is_huge_ = false;  ///< the last answer had more than Answers::kMaxAnswerBytes
  bool has_failed_ = false;
  std::vector<std::string> pruned_;   ///< of the file
  std::vector<std::string> missing_;  ///< the same with reasons
  serve::ComparedMoments compared_;
  bool command_line_omitted_ = false;  ///< from the recording, when it was bundled
  const std::uint64_t page_bytes_;     ///< without answers, but with the options that they were given
};

int write_html(const HtmlOptions& options) {
  refuse_recording_as_output(options.trace.output, options.trace.trace);
  Collection collection(options);
  collection.collect();
  const std::string page = collection.page();
  const std::string& path = options.trace.output;
  write_output(path, page);
  if (!collection.warnings().empty()) print_message(collection.warnings());
  print_message((path == "-" ? "standard output" : path) + ": " + render::human_bytes(page.size()));
  for (const std::string& sentence : collection.holds()) print_message("it holds " + sentence);
  for (const std::string& sentence : collection.missing()) print_message(sentence);
  return collection.has_failed() || !collection.is_complete() ? 1 : 0;
}

}  // namespace

int run_html(const HtmlOptions& options) {
  return guarded(options.trace.trace, [&] { return write_html(options); });
}

}  // namespace heapprof::cli
