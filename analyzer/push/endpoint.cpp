#include "analyzer/push/endpoint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "analyzer/render/utf8.h"

namespace heapprof::push {
namespace {

constexpr std::string_view kIngest = "/ingest";
constexpr std::string_view kProfiles = "/v1development/profiles";
constexpr std::string_view kAnyProfiles = "/profiles";  // of a later version of the protocol
constexpr std::string_view kProtobuf = "application/x-protobuf";
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::size_t kMaxReason = 200;

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// In Prometheus, a label's name consists of letters, digits and "_". It cannot begin with a digit; "__" is reserved.
std::string pyroscope_label(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !is_letter_or_digit(c); }, '_');
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') name.insert(0, "_");
  while (name.starts_with("__")) name.erase(0, 1);
  return name;
}

/// A value ends at "," or "}", and there are no escapes.
std::string pyroscope_value(std::string value) {
  std::ranges::replace_if(
      value, [](char c) { return c == ',' || c == '}'; }, '_');
  return value;
}

/// The first field `number` of a message that is a text or a message; empty: there is none, or the message is wrong.
/// `varint`: gets the first field of that number that is a number.
std::string_view protobuf_field(std::string_view message, std::uint64_t number, std::uint64_t* varint = nullptr) {
  const auto read = [&](std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  };
  for (std::uint64_t key = 0, value = 0; !message.empty() && read(key);) {
    std::size_t skip = 0;
    switch (key & 7) {
      case 0:
        if (!read(value)) return {};
        if (key >> 3 == number && varint != nullptr) {
          *varint = value;
          return {};
        }
        break;
      case 1: skip = 8; break;
      case 2:
        if (!read(value) || value > message.size()) return {};
        if (key >> 3 == number && varint == nullptr) return message.substr(0, value);
        skip = value;
        break;
      case 5: skip = 4; break;
      default: return {};
    }
    if (skip > message.size()) return {};
    message.remove_prefix(skip);
  }
  return {};
}

std::string clean_reason(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  return render::clip_utf8(render::clean_utf8(text.substr(0, text.find_first_of("\r\n"))), kMaxReason);
}

/// What the server says about an error.
std::string explanation(const Answer& answer) {
  const std::string type = lower(answer.content_type);
  if (type.starts_with(kProtobuf)) return clean_reason(protobuf_field(answer.body, 2));  // google.rpc.Status
  if (type.starts_with("text/html")) return {};
  return clean_reason(answer.body);
}

std::string status_text(unsigned status) {
  static constexpr std::array<std::pair<unsigned, const char*>, 12> kNames = {{{400, "Bad Request"},
                                                                               {401, "Unauthorized"},
                                                                               {403, "Forbidden"},
                                                                               {404, "Not Found"},
                                                                               {405, "Method Not Allowed"},
                                                                               {413, "Content Too Large"},
                                                                               {415, "Unsupported Media Type"},
                                                                               {429, "Too Many Requests"},
                                                                               {500, "Internal Server Error"},
                                                                               {502, "Bad Gateway"},
                                                                               {503, "Service Unavailable"},
                                                                               {504, "Gateway Timeout"}}};
  const auto found = std::ranges::find(kNames, status, &std::pair<unsigned, const char*>::first);
  return std::to_string(status) + (found == kNames.end() ? std::string() : std::string(" ") + found->second);
}

/// OTLP names the statuses after which a request may be sent again; others must not be.
bool may_try_again(Protocol protocol, unsigned status) {
  if (protocol == Protocol::kOtlp) return status == 429 || status == 502 || status == 503 || status == 504;
  return status == 408 || status == 429 || status >= 500;
}

/// Whether the answer to a profile says that the address or the credentials are wrong.
bool concerns_all(unsigned status) {
  return status < 400 || status == 401 || status == 403 || status == 404 || status == 405 || status == 415;
}

Verdict verdict_of_success(Protocol protocol, const Answer& answer) {
  using Kind = Verdict::Kind;
  const std::string type = lower(answer.content_type);
  const char* const expected = protocol == Protocol::kOtlp ? "an OpenTelemetry collector" : "Pyroscope";
  if (answer.too_long)
    return {Kind::kUnusable, std::string("the answer is not that of ") + expected + ": it has more than 64 KiB", {}};
  const bool is_wrong = protocol == Protocol::kOtlp ? !answer.body.empty() && !type.starts_with(kProtobuf)
                                                    : type.starts_with("text/html");
  if (is_wrong)
    return {Kind::kUnusable,
            std::string("the answer is not that of ") + expected + ": its type is " +
                (type.empty() ? "not given" : clean_reason(type)),
            {}};
  if (protocol == Protocol::kPyroscope) return {};
  const std::string_view partial = protobuf_field(answer.body, 1);
  std::uint64_t rejected = 0;
  protobuf_field(partial, 1, &rejected);
  if (rejected == 0) return {};
  const std::string why = clean_reason(protobuf_field(partial, 2));
  return {Kind::kRefused, "the collector rejected it" + (why.empty() ? "" : ": " + why), {}};
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return is_letter_or_digit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

}  // namespace

Endpoint endpoint_of(const std::string& text, std::optional<Protocol> protocol) {
  Endpoint endpoint{Protocol::kPyroscope, parse_url(text)};
  std::string& path = endpoint.url.path;
  while (path.ends_with('/')) path.pop_back();
  endpoint.protocol = protocol                                                      ? *protocol
                      : path.ends_with(kAnyProfiles) || endpoint.url.port == "4318" ? Protocol::kOtlp
                                                                                    : Protocol::kPyroscope;
  if (endpoint.protocol == Protocol::kOtlp) {
    if (!path.ends_with(kAnyProfiles)) path += kProfiles;
  } else if (!path.ends_with(kIngest)) {
    path += kIngest;
  }
  return endpoint;
}

bool is_loopback(const Url& url) {
  return url.host == "localhost" || url.host == "::1" || url.host.starts_with("127.");
}

std::string pyroscope_service(const std::string& text) {
  std::string name = text;
  std::ranges::replace_if(
      name,
      [](char c) { return !is_letter_or_digit(c) && std::string_view("_-./").find(c) == std::string_view::npos; },
      '_');
  return name.empty() ? "unknown" : name;
}

Request request_of(const Endpoint& endpoint, const Parcel& parcel, const Headers& headers) {
  Request request;
  request.url = endpoint.url;
  request.headers = headers;
  request.headers.emplace_back("User-Agent", "heapprof/" HEAPPROF_VERSION);
  request.body = parcel.body;
  if (endpoint.protocol == Protocol::kOtlp) {
    request.headers.emplace_back("Content-Type", kProtobuf);
    request.headers.emplace_back("Content-Encoding", "gzip");
    return request;
  }
  request.headers.emplace_back("Content-Type", "application/octet-stream");
  std::string labels;
  for (const auto& [name, value] : parcel.labels)
    if (!value.empty()) labels += (labels.empty() ? "" : ",") + pyroscope_label(name) + "=" + pyroscope_value(value);
  // An interval of less than a second must not be empty.
  const std::uint64_t from = parcel.from_ns / kSecond;
  const std::uint64_t until = std::max((parcel.until_ns + kSecond - 1) / kSecond, from + 1);
  request.query = "name=" + percent_encode(pyroscope_service(parcel.service) + "{" + labels + "}") +
                  "&from=" + std::to_string(from) + "&until=" + std::to_string(until) +
                  "&format=pprof&spyName=heapprof";
  return request;
}

Verdict verdict_of(Protocol protocol, const Answer& answer) {
  using Kind = Verdict::Kind;
  if (answer.status >= 200 && answer.status < 300) return verdict_of_success(protocol, answer);
  Verdict verdict;
  if (answer.status >= 300 && answer.status < 400) {
    const std::string to = clean_reason(answer.location);
    return {Kind::kUnusable,
            "redirected (" + std::to_string(answer.status) + ")" + (to.empty() ? "" : " to " + to) +
                "; redirects are not followed",
            {}};
  }
  verdict.kind = may_try_again(protocol, answer.status) ? Kind::kTryAgain
                 : concerns_all(answer.status)          ? Kind::kUnusable
                                                        : Kind::kRefused;
  const std::string why = explanation(answer);
  verdict.reason = "answered " + status_text(answer.status) + (why.empty() ? "" : ": " + why);
  unsigned seconds = 0;
  const std::string& after = answer.retry_after;
  const auto [end, wrong] = std::from_chars(after.data(), after.data() + after.size(), seconds);
  if (!after.empty() && wrong == std::errc() && end == after.data() + after.size()) verdict.retry_after = seconds;
  return verdict;
}

Headers parse_headers(const std::string& text, const std::string& source) {
  static constexpr std::string_view kOwn[] = {"host",         "connection", "content-length",   "content-encoding",
                                              "content-type", "expect",     "transfer-encoding"};
  Headers headers;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const auto refuse = [&](const std::string& what) {
      throw std::invalid_argument(source + ", line " + std::to_string(number) + ": " + what);
    };
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) refuse("expected NAME: VALUE");
    const std::string name(line.substr(0, colon));
    if (!is_header_name(name)) refuse("the name of the header has a character that is not allowed");
    if (std::ranges::find(kOwn, lower(name)) != std::end(kOwn))
      refuse("heapprof writes the header " + name + " itself");
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    if (std::ranges::any_of(value, [](char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f; }))
      refuse("the value of " + name + " has a control character");
    headers.emplace_back(name, value);
  }
  return headers;
}

}  // namespace heapprof::push
