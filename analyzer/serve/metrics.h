// What is live now, for Prometheus and other readers of OpenMetrics. `heapprof timeline --format openmetrics` has the
// past with its times, which a server that is scraped must not send.
#pragma once

#include <string>

namespace heapprof::serve {

inline constexpr const char* kMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The document of `top --once --json --by site` as metrics, with the names that `timeline --format openmetrics` has.
/// Throws std::runtime_error if it is no such document.
std::string metrics_of(const std::string& top_json);

}  // namespace heapprof::serve
