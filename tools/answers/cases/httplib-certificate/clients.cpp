// A server with TLS, and a client that fetches pages from it with a new connection each time.
#include <chrono>
#include <cstdio>
#include <httplib.h>
#include <map>
#include <string>
#include <thread>

int main(int, char** arguments) {
  const char* certificate = arguments[1];
  const char* key = arguments[2];
  httplib::SSLServer server(certificate, key);
  server.Get(R"(/page/(\d+))", [](const httplib::Request& request, httplib::Response& response) {
    response.set_content(std::string(4000, 'p') + request.matches[1].str(), "text/plain");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread server_thread([&] { server.listen_after_bind(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  std::map<int, std::string> pages;  // a cache with a limit
  int failures = 0;
  for (int number = 0; number < 1500; ++number) {
    httplib::SSLClient client("localhost", port);
    client.set_ca_cert_path(certificate);
    client.enable_server_certificate_verification(true);
    const auto response = client.Get(("/page/" + std::to_string(number)).c_str());
    if (response && response->status == 200) pages[number] = response->body;
    else ++failures;
    if (pages.size() > 300) pages.erase(pages.begin());
  }
  server.stop();
  server_thread.join();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
