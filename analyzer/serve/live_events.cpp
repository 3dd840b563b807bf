#include "analyzer/serve/live_events.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace heapprof::serve {
namespace {

/// A table is some kilobytes. A longer line is none.
constexpr std::size_t kMaxLine = 1 << 20;

}  // namespace

LiveEvents::LiveEvents(boost::asio::io_context& context, std::vector<std::string> traces)
    : context_(context), traces_(std::move(traces)) {}

std::string LiveEvents::data_of(const Figures& figures, bool ended) {
  return "{\"events\":" + std::to_string(figures.events) + ",\"at_ns\":" + std::to_string(figures.at_ns) +
         ",\"live_bytes\":" + std::to_string(figures.live_bytes) +
         ",\"live_blocks\":" + std::to_string(figures.live_blocks) + ",\"ended\":" + (ended ? "true" : "false") + "}";
}

LiveEvents::Id LiveEvents::listen(std::size_t trace, Listener listener) {
  std::shared_ptr<Watch>& watch = watches_[trace];
  if (watch == nullptr) {
    watch = std::make_shared<Watch>();
    watch->trace = trace;
    start(watch);
  }
  if (watch->has_figures) listener(data_of(watch->figures, false), false);
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
      context_,
      {"top", "--batch", "--json", "--interval=0.5", "--top=1", "--no-symbols", "--", traces_[watch->trace]}, {},
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
    const auto number = [&](const char* key) { return total.value(key, std::uint64_t{0}); };
    watch.figures = {number("allocations") + number("frees"), table.value("at_ns", std::uint64_t{0}),
                     number("live_bytes"), number("live_blocks")};
    is_new = true;
  }
  if (watch.unfinished.size() > kMaxLine) watch.unfinished.clear();
  if (!is_new) return;
  watch.has_figures = true;
  publish(watch, false);
}

void LiveEvents::publish(Watch& watch, bool ended) {
  const std::string data = data_of(watch.figures, ended);
  const std::map<Id, Listener> listeners = watch.listeners;  // one of them may leave
  for (const auto& [id, listener] : listeners) listener(data, ended);
}

}  // namespace heapprof::serve
