// Sends a profile, and tries again if that may help: a bounded number of times, with growing pauses.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "analyzer/push/endpoint.h"
#include "analyzer/push/http.h"

namespace heapprof::push {

struct DeliverySettings {
  Headers headers;
  std::chrono::milliseconds timeout{30'000};
  std::string ca_file;
  std::size_t retries = 4;  ///< after the first try
};

struct Delivery {
  enum class Kind {
    kDelivered,
    kFailed,    ///< all tries failed; it may succeed later
    kRefused,   ///< this profile was refused; others may be accepted
    kUnusable,  ///< every profile will be refused
    kStopped,   ///< `stopped` returned true
  };
  Kind kind = Kind::kDelivered;
  std::string reason;     ///< clean
  std::size_t tries = 0;  ///< that were made
};

/// Pauses between tries: 0.5 s, 1 s, 2 s, ..., at most 30 s; a server may ask for longer ones, up to 60 s. No pause
/// begins that would end after `deadline`.
Delivery deliver(const Endpoint& endpoint, const Parcel& parcel, const DeliverySettings& settings,
                 const Stopped& stopped, std::chrono::steady_clock::time_point deadline);

/// Waits until then, or until `stopped` returns true.
void wait_until(std::chrono::steady_clock::time_point time, const Stopped& stopped);

}  // namespace heapprof::push
