// The only file that includes Boost.Beast, which costs seconds of compile time.
//
// Beast parses HTTP and limits the sizes of headers and bodies; deadlines are those of beast::tcp_stream. At most
// kMaxConnections are open. If one more comes, the oldest of those is closed that have sent no request with the
// token, or wait for the next one. So clients without it keep nobody out, whether they send nothing or read nothing.
#include "analyzer/serve/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/http/span_body.hpp>
#include <cerrno>
#include <chrono>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analyzer/base/reason_of.h"
#include "analyzer/serve/access.h"
#include "analyzer/serve/live_events.h"
#include "analyzer/serve/page.h"
#include "analyzer/serve/request.h"

namespace heapprof::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxConnections = 64;
constexpr std::uint32_t kMaxHeaderBytes = 16 * 1024;
constexpr std::uint64_t kMaxBodyBytes = 4 * 1024;
/// Until a request has been received: from the first byte, or since the last answer.
constexpr std::chrono::seconds kReadTime{30};
constexpr std::chrono::seconds kWriteTime{120};

std::string page_policy() {
  return "default-src 'none'; " + served_page().sources +
         "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}
/// Of pictures and data, which a browser may open by themselves: no scripts, no requests.
constexpr const char* kDataPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

Answer text_answer(unsigned status, std::string_view type, std::string text) {
  return {status, std::string(type), std::make_shared<const std::string>(std::move(text))};
}

/// Names of files and threads may have bytes that are no UTF-8.
Answer json_answer(const Json& json) {
  return text_answer(200, "application/json", json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string_view as_view(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// The browser and the processes that answer must not keep the port and the connections: Asio's sockets are
/// inherited.
void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

class Session;

}  // namespace

struct Server::State {
  explicit State(ServerSettings given)
      : settings(std::move(given)), acceptor(context), signals(context), child_signals(context), retry(context),
        answers(context, settings.state_of, settings.index_words, true),
        live_events(context, settings.subject.traces) {}

  ~State();

  void listen();
  void accept();
  bool make_room();
  void watch_children();
  Json about() const;
  Json progress() const;

  ServerSettings settings;
  std::list<Session*> sessions;  ///< the oldest first. Outlives the context, whose operations own the sessions.
  asio::io_context context{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::signal_set child_signals;  ///< SIGCHLD. It keeps those that come before somebody waits.
  std::function<void()> child_ended;
  asio::steady_timer retry;
  Answers answers;
  LiveEvents live_events;
  std::optional<Access> access;
  bool has_sent_page = false;
};

namespace {

/// One connection.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server::State& server, tcp::socket socket)
      : server_(server), stream_(std::move(socket)), timer_(server.context),
        place_(server.sessions.insert(server.sessions.end(), this)) {}
  ~Session() {
    server_.sessions.erase(place_);
    stop_answer();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Reads the next request.
  void read() {
    waits_for_client_ = true;
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(kMaxBodyBytes);
    stream_.expires_after(kReadTime);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code failed, std::size_t) { self->received(failed); });
  }

  /// Whether nothing is lost if it is closed: no request with the token is being answered.
  bool may_be_closed() const noexcept { return waits_for_client_ || !is_authorized_; }
  /// The server ends: nothing is answered any more.
  void abandon() {
    ticket_ = 0;
    listener_ = 0;
    self_.reset();
  }
  void close() {
    waits_for_client_ = false;
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

 private:
  using Request = http::request<http::string_body>;
  using Response = http::response<http::span_body<const char>>;

  const Request& request() const { return parser_->get(); }
  std::string_view header(http::field name) const { return as_view(request()[name]); }

  void received(error_code failed) {
    waits_for_client_ = false;
    if (failed == http::error::end_of_stream || failed == asio::error::operation_aborted ||
        failed == boost::beast::error::timeout || failed == http::error::partial_message)
      return close();
    if (failed) {
      const bool is_http = failed.category() == make_error_code(http::error::bad_target).category();
      if (!is_http) return close();
      closes_ = true;
      return send(error_answer(failed == http::error::header_limit ? 431
                               : failed == http::error::body_limit ? 413
                                                                   : 400,
                               "not a valid request: " + failed.message()));
    }
    closes_ = !request().keep_alive();
    try {
      handle();
    } catch (const std::exception& error) {
      send(error_answer(500, reason_of(error)));
    }
  }

  /// Clients that are refused must connect again: they do not keep a place.
  void refuse(unsigned status, const std::string& sentence) {
    closes_ = true;
    send(error_answer(status, sentence));
  }

  void handle() {
    is_authorized_ = false;
    const http::verb method = request().method();
    if (method != http::verb::get && method != http::verb::head && method != http::verb::post)
      return refuse(405, "unknown method; expected GET, HEAD or POST");
    std::optional<Target> target = parse_target(as_view(request().target()));
    if (!target) return refuse(400, "the address is not valid: wrong escapes or control characters");
    const std::string* const token = find(target->parameters, "token");
    const bool is_post = method == http::verb::post;
    switch (server_.access->check({.host = header(http::field::host),
                                   .cookie = header(http::field::cookie),
                                   .authorization = header(http::field::authorization),
                                   .origin = header(http::field::origin),
                                   .fetch_site = as_view(request()["Sec-Fetch-Site"]),
                                   .token_parameter = token == nullptr ? std::string_view() : *token},
                                  is_post)) {
      case Verdict::kAllowed: break;
      case Verdict::kWrongHost:
        return refuse(403,
                      "the host of this address is not this server; use the address that 'heapprof serve' printed");
      case Verdict::kNoToken:
        return refuse(401,
                      "the token is missing or wrong; open the address that 'heapprof serve' printed, or send the "
                      "header 'Authorization: Bearer TOKEN'");
      case Verdict::kForeignPage: return refuse(403, "the request comes from a page of another server");
    }
    is_authorized_ = true;
    const bool is_navigation = token != nullptr && target->path == "/" && !is_post;
    std::erase_if(target->parameters, [](const Parameter& one) { return one.name == "token"; });
    // The page removes the token from its address. A redirect would not do: after one that began on another site,
    // such as a web terminal, browsers do not send the cookie.
    if (is_navigation) cookie_ = server_.access->set_cookie();
    if (is_post) post(*target);
    else get(*target);
  }

  void get(const Target& target) {
    const std::string& path = target.path;
    if (path == "/") {
      server_.has_sent_page = true;
      return send(text_answer(200, "text/html; charset=utf-8", served_page().text));
    }
    if (path == "/api/" || path == "/api") return send(json_answer(server_.about()));
    if (path == "/api/progress") return send(json_answer(server_.progress()));
    constexpr std::string_view kApi = "/api/";
    if (path == "/api/events") return send_events(target.parameters);
    if (path.starts_with(kApi)) {
      const std::string_view command = std::string_view(path).substr(kApi.size());
      return answer(question_of(command, target.parameters, server_.settings.subject));
    }
    if (path == "/metrics") return answer(metrics_question(target.parameters, server_.settings.subject));
    if (path == "/debug/pprof/heap" || path == "/debug/pprof/allocs")
      return send_pprof(target.parameters, path.ends_with("allocs"));
    send(error_answer(404, path + ": no such page"));
  }

  void post(const Target& target) {
    constexpr std::string_view kControl = "/api/control/";
    if (!target.path.starts_with(kControl))
      return send(error_answer(404, "POST " + target.path + ": no such action; expected POST /api/control/pause"));
    answer(control_question(std::string_view(target.path).substr(kControl.size()), target.parameters,
                            server_.settings.subject));
  }

  void answer(const std::variant<Question, Refusal>& question) {
    if (const auto* const refusal = std::get_if<Refusal>(&question)) return send(error_answer(400, refusal->reason));
    stream_.expires_never();
    ticket_ = server_.answers.ask(std::get<Question>(question), [weak = weak_from_this()](const Answer& answer) {
      const auto self = weak.lock();
      if (!self) return;
      self->ticket_ = 0;
      self->send(answer);
      self->self_.reset();
    });
    self_ = shared_from_this();
    watch_for_end();
  }

  /// /debug/pprof: what is known of the recording; with seconds=N of `allocs`, what is allocated in the next N
  /// seconds.
  void send_pprof(Parameters parameters, bool has_seconds) {
    // debug=0 is what tools that read profiles ask for.
    std::erase_if(parameters, [](const Parameter& one) { return one.name == "debug" && one.value == "0"; });
    const std::variant<unsigned, Refusal> taken = has_seconds ? take_seconds(parameters) : 0U;
    if (const auto* const refusal = std::get_if<Refusal>(&taken)) return send(error_answer(400, refusal->reason));
    const unsigned seconds = std::get<unsigned>(taken);
    if (seconds == 0) return answer(pprof_question(parameters, server_.settings.subject));
    const auto trace = trace_of(parameters, server_.settings.subject);
    if (const auto* const refusal = std::get_if<Refusal>(&trace)) return send(error_answer(400, refusal->reason));
    const std::size_t position = std::get<std::size_t>(trace);
    if (!server_.settings.is_running(position))
      return send(error_answer(422, "the program has ended, so nothing is allocated in the next " +
                                        std::to_string(seconds) + " s; omit seconds, or use from and to"));
    parameters.push_back({"from", std::to_string(server_.settings.elapsed_ns(position)) + "ns"});
    const auto question = pprof_question(parameters, server_.settings.subject);
    if (std::holds_alternative<Refusal>(question)) return answer(question);
    stream_.expires_never();
    timer_.expires_after(std::chrono::seconds(seconds));
    is_counting_ = true;
    self_ = shared_from_this();
    timer_.async_wait([weak = weak_from_this(), question](error_code stopped) {
      const auto self = weak.lock();
      if (stopped || !self) return;
      self->is_counting_ = false;
      self->answer(question);
    });
    watch_for_end();
  }

  /// /api/events: the connection stays open, and ends with the program.
  void send_events(const Parameters& parameters) {
    const auto trace = trace_of(parameters, server_.settings.subject);
    if (const auto* const refusal = std::get_if<Refusal>(&trace)) return send(error_answer(400, refusal->reason));
    for (const Parameter& one : parameters)
      if (one.name != "trace")
        return send(error_answer(400, "unknown parameter '" + one.name + "' of events; expected trace"));
    if (request().method() == http::verb::head) return send(text_answer(200, "text/event-stream", ""));
    closes_ = true;
    pending_ =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
        "Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: " +
        std::string(kDataPolicy) + "\r\nConnection: close\r\n\r\n";
    self_ = shared_from_this();
    write_events();
    watch_for_end();
    listener_ = server_.live_events.listen(std::get<std::size_t>(trace),
                                           [weak = weak_from_this()](const std::string& data, bool ended) {
                                             const auto self = weak.lock();
                                             if (!self) return;
                                             // A client that reads slowly gets the newest figures only.
                                             self->pending_ = "data: " + data + "\n\n";
                                             if (ended) self->listener_ = 0;
                                             self->has_ended_ = ended;
                                             self->write_events();
                                           });
  }

  void write_events() {
    if (is_writing_) return;
    if (pending_.empty()) {
      // The program has ended, and everything is sent.
      if (has_ended_) give_up();
      return;
    }
    is_writing_ = true;
    writing_ = std::exchange(pending_, {});
    stream_.expires_after(kWriteTime);
    asio::async_write(stream_, asio::buffer(writing_), [self = shared_from_this()](error_code failed, std::size_t) {
      self->is_writing_ = false;
      self->stream_.expires_never();
      if (failed) self->give_up();
      else self->write_events();
    });
  }

  /// Nothing more is sent.
  void give_up() {
    stop_answer();
    close();
    self_.reset();
  }

  void stop_answer() {
    timer_.cancel();
    is_counting_ = false;
    if (ticket_ != 0) server_.answers.cancel(std::exchange(ticket_, 0));
    if (listener_ != 0) server_.live_events.leave(std::exchange(listener_, 0));
  }

  bool is_awaited() const noexcept { return ticket_ != 0 || listener_ != 0 || is_counting_; }

  /// While an answer is computed: a client that closes the connection does not need it any more.
  void watch_for_end() {
    stream_.socket().async_wait(tcp::socket::wait_read, [weak = weak_from_this()](error_code failed) {
      const auto self = weak.lock();
      if (!self || !self->is_awaited()) return;
      char byte = 0;
      if (!failed) {
        const ssize_t got = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got > 0) return;  // the next request came early
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return self->watch_for_end();
      }
      self->give_up();
    });
  }

  void send(const Answer& answer) {
    body_ = answer.body;
    response_.emplace();
    Response& response = *response_;
    response.result(answer.status);
    response.version(11);
    response.set(http::field::content_type, answer.content_type);
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Referrer-Policy", "no-referrer");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.set("Cross-Origin-Opener-Policy", "same-origin");
    const bool is_page = answer.content_type.starts_with("text/html");
    response.set("Content-Security-Policy", is_page ? page_policy() : kDataPolicy);
    if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
    if (answer.status == 405) response.set(http::field::allow, "GET, HEAD, POST");
    if (!cookie_.empty()) response.set(http::field::set_cookie, std::exchange(cookie_, {}));
    response.keep_alive(!closes_);
    response.content_length(body_->size());
    if (parser_->is_header_done() && request().method() == http::verb::head) body_ = nullptr;
    response.body() = body_ == nullptr ? boost::beast::span<const char>()
                                       : boost::beast::span<const char>(body_->data(), body_->size());
    stream_.expires_after(kWriteTime);
    serializer_.emplace(response);
    const auto written = [self = shared_from_this()](error_code failed, std::size_t) { self->sent(failed); };
    if (body_ == nullptr) http::async_write_header(stream_, *serializer_, written);
    else http::async_write(stream_, *serializer_, written);
  }

  void sent(error_code failed) {
    body_.reset();
    serializer_.reset();
    response_.reset();
    if (failed || closes_) return close();
    read();
  }

  Server::State& server_;
  boost::beast::tcp_stream stream_;
  asio::steady_timer timer_;
  std::list<Session*>::iterator place_;
  boost::beast::flat_buffer buffer_{kMaxHeaderBytes + kMaxBodyBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Response> response_;
  std::optional<http::serializer<false, http::span_body<const char>>> serializer_;
  std::shared_ptr<const std::string> body_;
  std::string cookie_;  ///< to be set with the next answer
  bool closes_ = false;
  bool waits_for_client_ = true;
  bool is_authorized_ = false;  ///< the request that is being answered
  bool is_counting_ = false;    ///< the seconds of /debug/pprof/allocs
  Answers::Ticket ticket_ = 0;
  LiveEvents::Id listener_ = 0;
  std::string pending_, writing_;  ///< of events: to be sent next, and being sent
  bool is_writing_ = false;
  bool has_ended_ = false;         ///< `pending_` is the last
  std::shared_ptr<Session> self_;  ///< while something is computed, when no operation of the connection keeps it
};

}  // namespace

Json Server::State::about() const {
  Json json;
  json["format_version"] = 1;
  json["version"] = settings.version;
  bool any_running = false;
  Json& traces = json["traces"] = Json::array();
  for (std::size_t n = 0; n < settings.subject.traces.size(); ++n) {
    const std::string& path = settings.subject.traces[n];
    const bool running = settings.is_running(n);
    any_running |= running;
    traces.push_back({{"name", path.substr(path.rfind('/') + 1)}, {"path", path}, {"n", n}, {"running", running}});
  }
  json["live"] = any_running;
  Json& options = json["options"] = Json::object();
  for (const CommandWords& one : words_of_answers(settings.subject)) options[std::string(one.command)] = one.words;
  json["token_in_cookie"] = true;
  return json;
}

Json Server::State::progress() const {
  Json json;
  json["format_version"] = 1;
  Json& list = json["running"] = Json::array();
  for (const Answers::Running& one : answers.running()) {
    list.push_back({{"command", one.command},
                    {"time_ns", std::chrono::nanoseconds(one.time).count()},
                    {"what", one.progress.what},
                    {"share", one.progress.share},
                    {"events", one.progress.events}});
    if (!one.progress.so_far.is_null()) list.back()["so_far"] = one.progress.so_far;
  }
  return json;
}

void Server::State::listen() {
  error_code failed;
  const asio::ip::address address = asio::ip::make_address(settings.address, failed);
  if (failed)
    throw ServeError("invalid value '" + settings.address +
                     "' for --listen; expected an IP address such as 127.0.0.1, 0.0.0.0 or ::1");
  settings.address = address.to_string();  // of the forms of an IPv6 address, the shortest
  const tcp::endpoint endpoint(address, settings.port);
  const auto check = [&](const char* what) {
    if (!failed) return;
    const std::string place = settings.address + ", port " + std::to_string(settings.port);
    if (failed == asio::error::address_in_use)
      throw ServeError(place + ": the port is taken by another program; choose another --port, or none");
    throw ServeError(place + ": cannot " + what + ": " + failed.message());
  };
  acceptor.open(endpoint.protocol(), failed);
  check("open a socket");
  close_on_exec(acceptor.native_handle());
  // A server that has just ended does not block its port. Another one that listens there still does.
  acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  acceptor.bind(endpoint, failed);
  check("bind");
  acceptor.listen(static_cast<int>(kMaxConnections), failed);
  check("listen");
  access.emplace(random_token(), settings.address, acceptor.local_endpoint().port());
  accept();
}

void Server::State::accept() {
  acceptor.async_accept([this](error_code failed, tcp::socket socket) {
    if (failed == asio::error::operation_aborted) return;
    if (failed) {
      // No descriptors are left, for example.
      retry.expires_after(std::chrono::milliseconds(100));
      retry.async_wait([this](error_code stopped) {
        if (!stopped) accept();
      });
      return;
    }
    close_on_exec(socket.native_handle());
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (make_room()) std::make_shared<Session>(*this, std::move(socket))->read();
    accept();
  });
}

/// False: all connections are being answered.
bool Server::State::make_room() {
  if (sessions.size() < kMaxConnections) return true;
  for (Session* const session : sessions) {
    if (!session->may_be_closed()) continue;
    session->close();  // its operation fails, later, and ends it
    return true;
  }
  return false;
}

void Server::State::watch_children() {
  child_signals.async_wait([this](error_code stopped, int) {
    if (stopped) return;
    child_ended();
    watch_children();
  });
}

Server::State::~State() {
  const std::list<Session*> all = sessions;  // abandon() may end a session
  for (Session* const session : all) session->abandon();
}

Server::Server(ServerSettings settings) : state_(std::make_unique<State>(std::move(settings))) {
  state_->listen();
  state_->signals.add(SIGINT);
  state_->signals.add(SIGTERM);
  // nohup: it stays when the terminal is closed.
  struct sigaction at_hangup {};
  if (::sigaction(SIGHUP, nullptr, &at_hangup) == 0 && at_hangup.sa_handler != SIG_IGN) state_->signals.add(SIGHUP);
  state_->child_signals.add(SIGCHLD);
  // Asio's handler would interrupt system calls each time an answer is complete.
  struct sigaction at_child {};
  if (::sigaction(SIGCHLD, nullptr, &at_child) != 0) return;
  at_child.sa_flags |= SA_RESTART | SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &at_child, nullptr);
}

Server::~Server() = default;

std::uint16_t Server::port() const noexcept { return state_->acceptor.local_endpoint().port(); }

std::string Server::host() const {
  const std::string& address = state_->settings.address;
  if (address == "0.0.0.0") return "127.0.0.1";
  if (address == "::") return "[::1]";
  return address.find(':') != std::string::npos ? "[" + address + "]" : address;
}

std::string Server::url() const {
  return "http://" + host() + ":" + std::to_string(port()) + "/?token=" + state_->access->token();
}

bool Server::has_sent_page() const noexcept { return state_->has_sent_page; }

void Server::on_end_of_child(std::function<void()> ended) { state_->child_ended = std::move(ended); }

void Server::run() {
  if (state_->child_ended) state_->watch_children();
  state_->signals.async_wait([this](error_code, int) { state_->context.stop(); });
  state_->context.run();
}

}  // namespace heapprof::serve
