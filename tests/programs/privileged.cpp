// Prints what a program can find out about itself, and its capabilities; and executes a child that does the same. A
// test compares the output of a recorded run and of an unrecorded one. Leaks one block of 4321 bytes.
//
// usage: privileged [PORT]     PORT: first binds the TCP port, or prints the error
#include <netinet/in.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

void print_file(const char* path, const char* wanted) {
  char line[512];
  FILE* file = std::fopen(path, "r");
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
    if (*wanted == '\0' || std::strncmp(line, wanted, std::strlen(wanted)) == 0) std::fputs(line, stdout);
  if (file != nullptr) std::fclose(file);
}

void describe() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::printf("exe %.*s\n", static_cast<int>(length > 0 ? length : 0), path);
  char* real = realpath("/proc/self/exe", nullptr);
  std::printf("realpath %s\n", real != nullptr ? real : std::strerror(errno));
  std::free(real);
  print_file("/proc/self/comm", "");
  for (const char* line : {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:"}) print_file("/proc/self/status", line);
  std::printf("ambient");
  for (int capability = 0; capability < 64; ++capability)
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 1) std::printf(" %d", capability);
  std::printf("\nvariable %s\n", std::getenv("HEAPPROF_CAPABILITIES") != nullptr ? "is there" : "is not there");
}

void bind_port(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const int result = bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  std::printf("port %s\n", result == 0 ? "bound" : std::strerror(errno));
}

[[gnu::noinline]] void leak() {
  void* volatile block = std::malloc(4321);
  static_cast<void>(block);
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("called %s\n", argv[0]);
  if (argc > 1) bind_port(std::atoi(argv[1]));
  leak();
  describe();
  std::fflush(stdout);
  // A child that executes another file: it gets the capabilities that this program passes on.
  char* const command[] = {const_cast<char*>("grep"), const_cast<char*>("Cap"),
                           const_cast<char*>("/proc/self/status"), nullptr};
  pid_t child;
  if (posix_spawn(&child, "/bin/grep", nullptr, nullptr, command, environ) != 0) return 1;
  int status;
  waitpid(child, &status, 0);
  return status == 0 ? 7 : 2;
}
