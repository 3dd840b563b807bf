// heapprof push: sends profiles to Pyroscope or to an OpenTelemetry collector.
//
// Nothing but this command sends anything, and it only reads recordings: whatever the other side does, the recorded
// program is not concerned. A profile of a finished recording, or of one as it is now, is what `export pprof` writes.
// With --every, recordings are followed while they are written, a profile for each interval.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/export/named_stacks.h"
#include "analyzer/cli/commands/export/pushed_recording.h"
#include "analyzer/cli/commands/shared/named_traces.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/shared/trace_state.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/version.h"
#include "analyzer/export/otlp.h"
#include "analyzer/export/pprof.h"
#include "analyzer/push/delivery.h"
#include "analyzer/push/endpoint.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using Clock = std::chrono::steady_clock;
using push::Delivery;

constexpr int kEndedBySignal = 130;  // 128 and the number of SIGINT

volatile std::sig_atomic_t signals_received = 0;

void count_signal(int) {
  signals_received = signals_received + 1;
  if (signals_received > 1) ::_exit(kEndedBySignal);
}

/// While it exists, the first SIGINT or SIGTERM is counted, and the second one ends the program.
class CaughtSignals {
 public:
  CaughtSignals() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction action {};
      action.sa_handler = count_signal;
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~CaughtSignals() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  struct sigaction before_[std::size(kSignals)]{};
};

bool is_stopped() { return signals_received != 0; }

std::string bytes_and_blocks(const model::Costs& costs) {
  return render::exact_number(costs.allocations) + " allocations of " + render::human_bytes(costs.allocated_bytes) +
         ", " + render::human_bytes(costs.leaked_bytes) + " live";
}

/// The name of the program, for messages and as that of the service.
std::string program_of(const model::Recording& recording) {
  const std::string name = render::clean_utf8(base_name(recording.program));
  return name.empty() ? "unknown" : name;
}

/// "server (process 123), 2.00 s to 4.00 s: 12 allocations of 1.2 KiB, 512 B live"
std::string described(const model::Profile& profile) {
  return program_of(profile.recording) + " (process " + std::to_string(profile.recording.pid) + "), " +
         render::human_time(profile.begin_ns()) + " to " + render::human_time(profile.end_ns()) + ": " +
         bytes_and_blocks(profile.totals);
}

/// Sends profiles, and keeps count.
class Pusher {
 public:
  explicit Pusher(const PushOptions& options)
      : options_(options), endpoint_(push::endpoint_of(options.url, options.protocol)),
        address_(endpoint_.url.text()) {
    settings_.timeout = options.timeout;
    settings_.retries = options.retries;
    settings_.ca_file = options.ca_file;
    read_headers();
  }

  /// What the profiles of intervals have; others have all costs of `export pprof`.
  static std::span<const exporter::CostColumn> columns_of_intervals() { return exporter::cost_columns().first(4); }

  Delivery send(const model::Profile& profile, std::span<const exporter::CostColumn> columns, KnownFrames* known,
                Clock::time_point deadline) {
    const push::Parcel parcel = parcel_of(profile, columns, known);
    Delivery delivery = push::deliver(endpoint_, parcel, settings_, stopped_, deadline);
    if (delivery.kind == Delivery::Kind::kDelivered && !options_.quiet) {
      std::printf("%s; sent %s\n", described(profile).c_str(), render::human_bytes(parcel.body.size()).c_str());
      if (std::fflush(stdout) != 0) throw OutputError("standard output cannot be written");
    }
    return delivery;
  }

  /// From now on one try for each profile, with a short time.
  void hurry() {
    settings_.retries = 0;
    settings_.timeout = std::min<std::chrono::milliseconds>(settings_.timeout, std::chrono::seconds(5));
    stopped_ = [] { return signals_received > 1; };
  }

  /// "http://host:4040/ingest: answered 401 Unauthorized (5 tries)"
  std::string failure(const Delivery& delivery) const {
    return address_ + ": " + delivery.reason +
           (delivery.tries > 1 ? " (" + std::to_string(delivery.tries) + " tries)" : "");
  }

 private:
  void read_headers() {
    if (!options_.headers_file.empty()) {
      constexpr std::size_t kMaxBytes = 64 * 1024;
      std::ifstream file(options_.headers_file);
      std::string text(kMaxBytes + 1, '\0');
      file.read(text.data(), static_cast<std::streamsize>(text.size()));
      if (!file.eof() || file.bad())
        throw std::invalid_argument(options_.headers_file +
                                    ": cannot be read as a file of headers of at most 64 KiB");
      text.resize(static_cast<std::size_t>(file.gcount()));
      settings_.headers = push::parse_headers(text, options_.headers_file);
    }
    if (const char* const text = std::getenv("HEAPPROF_PUSH_HEADERS"); text != nullptr)
      for (auto& header : push::parse_headers(text, "HEAPPROF_PUSH_HEADERS"))
        settings_.headers.push_back(std::move(header));
    if (!settings_.headers.empty() && !endpoint_.url.tls && !push::is_loopback(endpoint_.url))
      print_message("warning: " + endpoint_.url.host +
                    " gets the headers without encryption: whoever reads the traffic can read them; use https");
  }

  push::Parcel parcel_of(const model::Profile& profile, std::span<const exporter::CostColumn> columns,
                         KnownFrames* known) const {
    const model::Recording& recording = profile.recording;
    exporter::StackTable table = stacks_with_names(profile, options_.trace.symbols, known);
    table.command = table.program;  // arguments can be secret
    push::Parcel parcel;
    parcel.service = options_.service.empty() ? program_of(recording) : options_.service;
    parcel.from_ns = recording.start_realtime_ns + profile.begin_ns();
    parcel.until_ns = recording.start_realtime_ns + profile.end_ns();
    const std::string host = render::clean_utf8(recording.host);
    std::map<std::string, std::string> labels;  // recorded ones, and those of --label instead
    for (const auto& [key, value] : recording.labels) labels[render::clean_utf8(key)] = render::clean_utf8(value);
    for (const auto& [name, value] : options_.labels) labels[name] = value;
    exporter::Sink body(&parcel.body, exporter::Sink::Compression::kGzip);
    if (endpoint_.protocol == push::Protocol::kOtlp) {
      std::vector<exporter::OtlpAttribute> resource = {{"service.name", parcel.service},
                                                       {"process.executable.name", program_of(recording)},
                                                       {"process.pid", std::uint64_t{recording.pid}}};
      if (!host.empty()) resource.emplace_back("host.name", host);
      for (const auto& [name, value] : labels) {
        std::erase_if(resource, [&](const auto& other) { return other.first == name; });
        resource.emplace_back(name, value);
      }
      exporter::write_otlp(table, columns, resource, printed_version, body);
    } else {
      labels.emplace("host.name", host);
      labels.emplace("process.pid", std::to_string(recording.pid));
      parcel.labels.assign(labels.begin(), labels.end());
      exporter::write_pprof(table, body, columns);
    }
    if (!body.close()) throw OutputError("the profile cannot be compressed: " + body.error());
    return parcel;
  }

  const PushOptions& options_;
  const push::Endpoint endpoint_;
  const std::string address_;
  push::DeliverySettings settings_;
  push::Stopped stopped_ = is_stopped;
};

/// What was not delivered in the end.
struct Undelivered {
  std::size_t profiles = 0;
  model::Costs costs;

  void add(const model::Costs& more) {
    ++profiles;
    costs += more;
  }
  /// `not_tried`: recordings that were not even read.
  std::string text(std::size_t not_tried) const {
    return (profiles == 1 ? "1 profile" : render::exact_number(profiles) + " profiles") +
           " not delivered: " + render::exact_number(costs.allocations) + " allocations of " +
           render::human_bytes(costs.allocated_bytes) +
           (not_tried == 0 ? "" : "; recordings not tried: " + render::exact_number(not_tried));
  }
};

/// Each recording as it is now.
int push_once(const PushOptions& options, Pusher& pusher) {
  const std::vector<std::string> traces =
      options.trace.traces.empty() ? std::vector{options.trace.trace} : traces_named(options.trace.traces);
  Undelivered undelivered;
  std::size_t left = traces.size();
  int status = 0;
  bool go_on = true;
  for (const std::string& trace : traces) {
    --left;
    TraceOptions one = for_costs(options.trace);
    one.trace = trace;
    one.traces.clear();
    one.one_of_several = traces.size() > 1;
    const int result = run_on_trace(one, [&](const replay::Analysis& analysis) {
      const CaughtSignals caught;
      const model::Profile& profile = analysis.profile();
      const Delivery delivery = pusher.send(profile, exporter::cost_columns(), nullptr, Clock::time_point::max());
      if (delivery.kind == Delivery::Kind::kDelivered) return;
      undelivered.add(profile.totals);
      print_message(pusher.failure(delivery));
      go_on = delivery.kind == Delivery::Kind::kRefused;
    });
    if (result == 2) return 2;
    status = std::max(status, result);
    if (!go_on) break;
  }
  if (undelivered.profiles == 0) return status;
  print_message(undelivered.text(left));
  return is_stopped() ? kEndedBySignal : 1;
}

/// --every: follows recordings until all of their programs have ended.
class PushEvery {
 public:
  PushEvery(const PushOptions& options, Pusher& pusher) : options_(options), pusher_(pusher) {}

  int run() {
    const CaughtSignals caught;
    Clock::time_point next = Clock::now();
    for (bool first = true;; first = false) {
      next = std::max(next + options_.every, Clock::now());
      find_recordings(first);
      if (!push_all(first, next) || is_over()) break;
      wait(next);
      if (!is_stopped()) continue;
      pusher_.hurry();
      find_recordings(false);
      push_all(false, Clock::now());
      break;
    }
    return result();
  }

 private:
  /// By path; null: not opened yet.
  using Recordings = std::map<std::string, std::unique_ptr<PushedRecording>>;

  /// Those that are known are followed, also when their paths name nothing any more.
  void find_recordings(bool first) try {
    const std::vector<std::string> paths =
        options_.trace.traces.empty() ? std::vector{options_.trace.trace} : traces_named(options_.trace.traces);
    problem_.clear();
    for (const std::string& path : paths)
      if (known_.insert(path).second) recordings_.emplace(path, nullptr);
  } catch (const std::runtime_error& error) {  // OutputError, TraceError
    if (first) throw;
    if (std::exchange(problem_, error.what()) != error.what()) print_message(error.what());
  }

  /// False: nothing more can be delivered.
  bool push_all(bool first, Clock::time_point deadline) {
    bool is_down = false;
    for (auto at = recordings_.begin(); at != recordings_.end();) {
      const auto one = at++;
      if (is_down && one->second == nullptr) continue;
      try {
        if (one->second == nullptr)
          one->second = std::make_unique<PushedRecording>(one->first, options_.trace.symbols);
        one->second->read();
      } catch (const trace::TraceError& error) {
        print_message(error.what());
        status_ = 1;
        recordings_.erase(one);
        continue;
      }
      if (is_down) continue;
      PushedRecording& recording = *one->second;
      const model::Profile profile = recording.interval();
      const Delivery delivery = pusher_.send(profile, Pusher::columns_of_intervals(), &recording.known_frames(),
                                             recording.ended() ? Clock::time_point::max() : deadline);
      switch (delivery.kind) {
        case Delivery::Kind::kDelivered:
          if (std::exchange(is_failing_, false)) print_message("profiles are accepted again");
          break;
        case Delivery::Kind::kRefused:
          print_message(pusher_.failure(delivery));
          undelivered_.add(profile.totals);
          break;
        case Delivery::Kind::kStopped: return false;
        case Delivery::Kind::kUnusable:
        case Delivery::Kind::kFailed:
          is_down = true;
          if (!std::exchange(is_failing_, true))
            print_message(pusher_.failure(delivery) +
                          (recording.ended() ? "" : "; the next profile has this interval, too"));
          if (first && delivery.kind == Delivery::Kind::kUnusable) return false;
          continue;
      }
      recording.begin_next_interval();
      if (!recording.ended()) continue;
      note_end(one->first, recording);
      recordings_.erase(one);
    }
    return true;
  }

  void note_end(const std::string& path, const PushedRecording& recording) {
    if (recording.follower().damage().incomplete) {
      print_message(path + ": the trace is incomplete; the rest was read. 'heapprof info' prints details");
      status_ = 1;
    }
    if (!options_.trace.traces.empty() || recording.follower().ended_by() != "exec") return;
    const std::string later = find_last_trace_of_process(path, recording.follower().header());
    if (!later.empty())
      print_message(path + ": the program executed another one; the recording of the process continues in " + later);
  }

  /// What is left has ended, and could not be delivered.
  bool is_over() const {
    return std::ranges::all_of(recordings_, [](const auto& one) {
      return one.second == nullptr ? !is_running(one.first) : one.second->ended();
    });
  }

  bool is_any_running() const {
    return std::ranges::any_of(recordings_, [](const auto& one) {
      return one.second == nullptr ? is_running(one.first) : one.second->is_written();
    });
  }

  int result() {
    std::size_t not_tried = 0;
    for (const auto& [path, recording] : recordings_) {
      if (recording == nullptr) ++not_tried;
      else if (recording->has_undelivered()) undelivered_.add(recording->interval().totals);
    }
    if (undelivered_.profiles + not_tried == 0) return status_;
    print_message(undelivered_.text(not_tried));
    return 1;
  }

  /// Until the next interval ends, all programs have ended, or a signal comes.
  void wait(Clock::time_point next) const {
    constexpr std::chrono::milliseconds kLook{500};
    while (!is_stopped() && Clock::now() < next && is_any_running())
      push::wait_until(std::min(next, Clock::now() + kLook), is_stopped);
  }

  const PushOptions& options_;
  Pusher& pusher_;
  Recordings recordings_;        // that are not delivered to their end
  std::set<std::string> known_;  // paths
  Undelivered undelivered_;
  std::string problem_;  // why no recordings could be found
  bool is_failing_ = false;
  int status_ = 0;
};

}  // namespace

int run_push(const PushOptions& options) {
  // A TLS library writes to a connection that the server has closed.
  std::signal(SIGPIPE, SIG_IGN);
  return guarded(options.trace.trace, [&] {
    std::optional<Pusher> pusher;
    try {
      pusher.emplace(options);
    } catch (const std::invalid_argument& error) {
      print_message(error.what());
      return 2;
    }
    return options.every.count() == 0 ? push_once(options, *pusher) : PushEvery(options, *pusher).run();
  });
}

}  // namespace heapprof::cli
