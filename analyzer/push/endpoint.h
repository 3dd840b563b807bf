// Where `push` sends profiles, and how: which protocol a URL means, what a request looks like in it, and what an
// answer means.
//
//   Pyroscope       POST URL/ingest?name=SERVICE{LABELS}&from=T&until=T&format=pprof, and the profile as pprof
//                   (grafana.com/docs/pyroscope/latest/reference-server-api)
//   OpenTelemetry   POST URL/v1development/profiles, and an ExportProfilesServiceRequest
//                   (opentelemetry.io/docs/specs/otlp)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/push/http.h"

namespace heapprof::push {

enum class Protocol { kPyroscope, kOtlp };

struct Endpoint {
  Protocol protocol = Protocol::kPyroscope;
  Url url;  ///< with the path of the protocol
};

/// The endpoint that `url` means. Without `protocol` it is OTLP if the port is 4318 or the path ends in "/profiles",
/// else Pyroscope's. The protocol's path is appended unless the URL ends in it. Throws std::invalid_argument, with
/// what is wrong.
Endpoint endpoint_of(const std::string& url, std::optional<Protocol> protocol);

/// Whether only this machine is reached.
bool is_loopback(const Url& url);

/// A profile to be sent.
struct Parcel {
  std::string service;
  std::vector<std::pair<std::string, std::string>> labels;  ///< names such as "host.name"; clean UTF-8
  std::uint64_t from_ns = 0;                                ///< since 1970
  std::uint64_t until_ns = 0;
  std::string body;  ///< compressed by gzip
};

/// `text` as Pyroscope accepts it as the name of a service: letters, digits, "_", "-", "." and "/".
std::string pyroscope_service(const std::string& text);

/// The request without `timeout` and `ca_file`; refers to the body of `parcel`. `headers`: the user's.
Request request_of(const Endpoint& endpoint, const Parcel& parcel, const Headers& headers);

/// What an answer means.
struct Verdict {
  enum class Kind {
    kDelivered,
    kTryAgain,  ///< it may succeed later
    kRefused,   ///< this profile is refused; others may be accepted
    kUnusable,  ///< every profile will be refused
  };
  Kind kind = Kind::kDelivered;
  std::string reason;                   ///< clean
  std::optional<unsigned> retry_after;  ///< seconds
};
Verdict verdict_of(Protocol protocol, const Answer& answer);

/// Reads lines "NAME: VALUE"; empty ones and those that begin with "#" are skipped. `source` is named in errors.
/// Throws std::invalid_argument, with what is wrong, but never with a value: it may be secret.
Headers parse_headers(const std::string& text, const std::string& source);

}  // namespace heapprof::push
