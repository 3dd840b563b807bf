#include "analyzer/push/delivery.h"

#include <algorithm>
#include <thread>

#include "analyzer/render/utf8.h"

namespace heapprof::push {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{500};
constexpr milliseconds kLongestPause{30'000};
constexpr unsigned kMaxRetryAfter = 60;  // seconds

Verdict try_once(const Endpoint& endpoint, const Request& request, const Stopped& stopped, bool& is_stopped) {
  try {
    return verdict_of(endpoint.protocol, post(request, stopped));
  } catch (const HttpError& error) {
    is_stopped = error.kind() == HttpError::Kind::kStopped;
    return {error.kind() == HttpError::Kind::kTryAgain ? Verdict::Kind::kTryAgain : Verdict::Kind::kUnusable,
            render::clean_utf8(error.what()),
            {}};
  }
}

}  // namespace

void wait_until(Clock::time_point time, const Stopped& stopped) {
  constexpr milliseconds kStep{50};
  for (Clock::time_point now; !stopped() && (now = Clock::now()) < time;)
    std::this_thread::sleep_for(std::min<Clock::duration>(kStep, time - now));
}

Delivery deliver(const Endpoint& endpoint, const Parcel& parcel, const DeliverySettings& settings,
                 const Stopped& stopped, Clock::time_point deadline) {
  using Kind = Delivery::Kind;
  Request request = request_of(endpoint, parcel, settings.headers);
  request.timeout = settings.timeout;
  request.ca_file = settings.ca_file;
  milliseconds pause = kFirstPause;
  for (std::size_t tries = 1;; ++tries) {
    bool is_stopped = false;
    const Verdict verdict = try_once(endpoint, request, stopped, is_stopped);
    if (is_stopped) return {Kind::kStopped, verdict.reason, tries};
    switch (verdict.kind) {
      case Verdict::Kind::kDelivered: return {Kind::kDelivered, {}, tries};
      case Verdict::Kind::kRefused: return {Kind::kRefused, verdict.reason, tries};
      case Verdict::Kind::kUnusable: return {Kind::kUnusable, verdict.reason, tries};
      case Verdict::Kind::kTryAgain: break;
    }
    const milliseconds asked = std::chrono::seconds(std::min(verdict.retry_after.value_or(0), kMaxRetryAfter));
    const Clock::time_point next = Clock::now() + std::max(pause, asked);
    if (tries > settings.retries || next > deadline) return {Kind::kFailed, verdict.reason, tries};
    wait_until(next, stopped);
    if (stopped()) return {Kind::kStopped, verdict.reason, tries};
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace heapprof::push
