#include "analyzer/serve/live_events.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace heapprof::serve {
namespace {

/// A table is some kilobytes. A longer line is none.
constexpr std::size_t kMaxLine = 1 << 20;

std::string data_of(std::uint64_t events, std::uint64_t at_ns, bool ended) {
  return "{\"events\":" + std::to_string(events) + ",\"at_ns\":" + std::to_string(at_ns) +
         ",\"ended\":" + (ended ? "true" : "false") + "}";
}

}  // namespace

LiveEvents::LiveEvents(boost::asio::io_context& context, std::vector<std::string> traces)
    : context_(context), traces_(std::move(traces)) {}

LiveEvents::Id LiveEvents::listen(std::size_t trace, Listener listener) {
  std::shared_ptr<Watch>& watch = watches_[trace];
  if (watch == nullptr) {
    watch = std::make_shared<Watch>();
    watch->trace = trace;
    start(watch);
  }
  if (watch->has_figures) listener(data_of(watch->events, watch->at_ns, false), false);
  watch->listeners.emplace(++last_id_, std::move(listener));
  return last_id_;
}

void LiveEvents::leave(Id id) {
  for (auto entry = watches_.begin(); entry != watches_.end(); ++entry) {
    const std::shared_ptr<Watch> watch = entry->second;
    if (watch->listeners.erase(id) == 0) continue;
    if (!watch->listeners.empty()) return;
    watches_.erase(entry);
    if (watch->child != nullptr) watch->child->kill();
    return;
  }
}

void LiveEvents::start(const std::shared_ptr<Watch>& watch) {
  // Names are not needed, and finding them takes time.
  watch->child = ChildProcess::start(
      context_, {"top", "--batch", "--json", "--interval=1", "--top=1", "--no-symbols", "--", traces_[watch->trace]},
      {},
      [this, weak = std::weak_ptr(watch)](ChildResult&&) {
        const auto ended = weak.lock();
        if (!ended) return;  // nobody listens any more
        watches_.erase(ended->trace);
        publish(*ended, true);
      },
      [this, weak = std::weak_ptr(watch)](std::string_view output) {
        if (const auto alive = weak.lock()) take(*alive, output);
      });
}

void LiveEvents::take(Watch& watch, std::string_view output) {
  watch.unfinished += output;
  bool is_new = false;
  for (std::size_t end = 0; (end = watch.unfinished.find('\n')) != std::string::npos;) {
    const nlohmann::json table = nlohmann::json::parse(watch.unfinished.substr(0, end), nullptr, false);
    watch.unfinished.erase(0, end + 1);
    if (!table.is_object() || !table.contains("total")) continue;
    const nlohmann::json& total = table["total"];
    watch.events = total.value("allocations", std::uint64_t{0}) + total.value("frees", std::uint64_t{0});
    watch.at_ns = table.value("at_ns", std::uint64_t{0});
    is_new = true;
  }
  if (watch.unfinished.size() > kMaxLine) watch.unfinished.clear();
  if (!is_new) return;
  watch.has_figures = true;
  publish(watch, false);
}

void LiveEvents::publish(Watch& watch, bool ended) {
  const std::string data = data_of(watch.events, watch.at_ns, ended);
  const std::map<Id, Listener> listeners = watch.listeners;  // one of them may leave
  for (const auto& [id, listener] : listeners) listener(data, ended);
}

}  // namespace heapprof::serve
