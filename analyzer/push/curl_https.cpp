// post() with TLS, by libcurl. Its headers are not needed to build: the numbers are those of curl/curl.h, which are
// the same in every libcurl.so.4 (curl.se/libcurl/abi.html).
#include <dlfcn.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "analyzer/push/http.h"

namespace heapprof::push {
namespace {

// CURLoption: the type's base (0 long, 10000 pointer, 20000 function, 30000 off_t), and a number.
constexpr int kOptWriteData = 10001;
constexpr int kOptUrl = 10002;
constexpr int kOptErrorBuffer = 10010;
constexpr int kOptPostFields = 10015;
constexpr int kOptHttpHeader = 10023;
constexpr int kOptHeaderData = 10029;
constexpr int kOptProgressData = 10057;
constexpr int kOptCaInfo = 10065;
constexpr int kOptWriteFunction = 20011;
constexpr int kOptHeaderFunction = 20079;
constexpr int kOptProgressFunction = 20219;
constexpr int kOptPostFieldSize = 30120;
constexpr int kOptNoProgress = 43;
constexpr int kOptHttpVersion = 84;
constexpr int kOptNoSignal = 99;
constexpr int kOptTimeoutMs = 155;
constexpr int kOptProtocols = 181;
constexpr int kOptQuickExit = 322;
constexpr long kHttpVersion11 = 2;
constexpr long kOnlyHttps = 2;
constexpr int kInfoResponseCode = 0x200002;

// CURLcode.
constexpr int kCouldNotResolve = 6;
constexpr int kCouldNotConnect = 7;
constexpr int kWriteError = 23;
constexpr int kTimedOut = 28;
constexpr int kNoTls = 35;
constexpr int kAborted = 42;
constexpr int kGotNothing = 52;
constexpr int kSendError = 55;
constexpr int kReceiveError = 56;
constexpr std::size_t kErrorBytes = 256;

struct Curl {
  void* (*init)() = nullptr;
  int (*set)(void* handle, int option, ...) = nullptr;
  int (*perform)(void* handle) = nullptr;
  int (*info)(void* handle, int what, ...) = nullptr;
  void (*cleanup)(void* handle) = nullptr;
  void* (*append)(void* list, const char* text) = nullptr;
  void (*free_list)(void* list) = nullptr;
  const char* (*error)(int code) = nullptr;

  Curl() {
    void* library = nullptr;
    for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    find(library, init, "curl_easy_init");
    find(library, set, "curl_easy_setopt");
    find(library, perform, "curl_easy_perform");
    find(library, info, "curl_easy_getinfo");
    find(library, cleanup, "curl_easy_cleanup");
    find(library, append, "curl_slist_append");
    find(library, free_list, "curl_slist_free_all");
    find(library, error, "curl_easy_strerror");
  }
  bool usable() const {
    return init != nullptr && set != nullptr && perform != nullptr && info != nullptr && cleanup != nullptr &&
           append != nullptr && free_list != nullptr && error != nullptr;
  }

 private:
  template <typename Function>
  static void find(void* library, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};

/// What libcurl passes to the functions below.
struct Transfer {
  Answer answer;
  std::size_t header_bytes = 0;
  const Stopped& stopped;
};

std::size_t take_body(const char* bytes, std::size_t, std::size_t count, void* data) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  if (transfer.answer.body.size() + count > kMaxAnswerBody) {
    transfer.answer.too_long = true;
    return 0;
  }
  transfer.answer.body.append(bytes, count);
  return count;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::size_t take_header(const char* bytes, std::size_t, std::size_t count, void* data) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  transfer.header_bytes += count;
  if (transfer.header_bytes > kMaxAnswerHeader) return 0;
  const std::string_view line(bytes, count);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return count;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string value = trimmed(line.substr(colon + 1));
  if (name == "content-type") transfer.answer.content_type = value;
  if (name == "retry-after") transfer.answer.retry_after = value;
  if (name == "location") transfer.answer.location = value;
  return count;
}

int look_for_stop(void* data, long long, long long, long long, long long) {
  return static_cast<Transfer*>(data)->stopped() ? 1 : 0;
}

bool may_succeed_later(int code) {
  switch (code) {
    case kCouldNotResolve:
    case kCouldNotConnect:
    case kTimedOut:
    case kNoTls:
    case kGotNothing:
    case kSendError:
    case kReceiveError: return true;
    default: return false;
  }
}

}  // namespace

Answer post_https(const Request& request, const Stopped& stopped) {
  static const Curl curl;
  if (!curl.usable())
    throw HttpError(HttpError::Kind::kHopeless,
                    "https needs libcurl.so.4, which is not installed; install libcurl4 (Debian) or libcurl");
  const std::unique_ptr<void, void (*)(void*)> handle(curl.init(), curl.cleanup);
  if (handle == nullptr) throw HttpError(HttpError::Kind::kHopeless, "libcurl does not start");
  void* list = nullptr;
  const auto add = [&](const std::string& line) {
    void* const longer = curl.append(list, line.c_str());
    if (longer != nullptr) list = longer;
  };
  for (const auto& [name, value] : request.headers) add(name + ": " + value);
  // Otherwise libcurl would wait for the server's consent, and name its own type.
  add("Expect:");
  const std::unique_ptr<void, void (*)(void*)> headers(list, curl.free_list);
  Transfer transfer{{}, 0, stopped};
  std::array<char, kErrorBytes> message{};
  const std::string url = request.url.text() + (request.query.empty() ? "" : "?" + request.query);
  void* const at = handle.get();
  curl.set(at, kOptUrl, url.c_str());
  curl.set(at, kOptProtocols, kOnlyHttps);
  curl.set(at, kOptHttpVersion, kHttpVersion11);
  curl.set(at, kOptHttpHeader, list);
  curl.set(at, kOptPostFieldSize, static_cast<long long>(request.body.size()));
  curl.set(at, kOptPostFields, request.body.data());
  curl.set(at, kOptTimeoutMs, static_cast<long>(request.timeout.count()));
  curl.set(at, kOptNoSignal, 1L);
  // Else a request ends only after the lookup of its host. Since 7.87; earlier versions refuse the option.
  curl.set(at, kOptQuickExit, 1L);
  curl.set(at, kOptNoProgress, 0L);
  curl.set(at, kOptProgressFunction, look_for_stop);
  curl.set(at, kOptProgressData, &transfer);
  curl.set(at, kOptHeaderFunction, take_header);
  curl.set(at, kOptHeaderData, &transfer);
  curl.set(at, kOptWriteFunction, take_body);
  curl.set(at, kOptWriteData, &transfer);
  curl.set(at, kOptErrorBuffer, message.data());
  if (!request.ca_file.empty()) curl.set(at, kOptCaInfo, request.ca_file.c_str());
  const int code = curl.perform(at);
  if (code == kAborted) throw HttpError(HttpError::Kind::kStopped, "stopped");
  if (code == kWriteError && transfer.answer.too_long) transfer.answer.body.clear();
  else if (code != 0)
    throw HttpError(may_succeed_later(code) ? HttpError::Kind::kTryAgain : HttpError::Kind::kHopeless,
                    code == kTimedOut      ? "no answer in time"
                    : message.front() != 0 ? std::string(message.data())
                                           : std::string(curl.error(code)));
  long status = 0;
  curl.info(at, kInfoResponseCode, &status);
  transfer.answer.status = static_cast<unsigned>(status);
  return transfer.answer;
}

}  // namespace heapprof::push
