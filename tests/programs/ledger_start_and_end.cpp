// Allocations at the start and the end of the program and of threads.
//
// usage: ledger_start_and_end WORK    0: none of the allocations
//
// Allocations in .preinit_array, in the first and in other constructors, in a failing dlsym, in signal handlers, at a
// thread's end (in C++ thread-local destructors and in key destructors, which glibc calls in up to four rounds), in
// atexit handlers, in global destructors, and in the last of them.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>

#include "tests/support/sites.h"

namespace {

bool working = true;
void* from_preinit;
void* from_first_constructor;
void* kept_by_atexit[4];

}  // namespace

LEDGER_SITE void* site_constructor(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_constructor, nullptr, size);
  return ledger::done(entry, malloc(size));
}

LEDGER_SITE void* site_preinit(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_preinit, nullptr, size);
  return ledger::done(entry, malloc(size));
}

LEDGER_SITE void* site_destructor(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_destructor, nullptr, size);
  return ledger::done(entry, malloc(size));
}

LEDGER_SITE void* site_thread_exit(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_thread_exit, nullptr, size);
  return ledger::done(entry, malloc(size));
}

LEDGER_SITE void* site_atexit(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_atexit, nullptr, size);
  return ledger::done(entry, malloc(size));
}

LEDGER_SITE void* site_signal(std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_signal, nullptr, size);
  return ledger::done(entry, malloc(size));
}

namespace {

void preinit(int argc, char** argv, char** environment) {
  working = ledger::argument(argc, argv, 1, 1) != 0;
  ledger::open(ledger::kSiteNames, 16, 4096, environment);
  ledger::set_phase(ledger::Phase::kWorking);
  if (working) from_preinit = site_preinit(101);
}
#ifdef __GLIBC__
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit_entry)(int, char**, char**) = preinit;
#endif

[[gnu::constructor(101)]] void first_constructor() {
#ifndef __GLIBC__  // musl ignores that section, and passes no arguments to constructors
  preinit(1, nullptr, environ);
#endif
  if (!working) return;
  from_first_constructor = site_constructor(102);
  site_constructor(103);  // leaked
}

[[gnu::constructor]] void later_constructor() {
  if (!working) return;
  site_free(from_preinit);
  for (int i = 0; i < 10; ++i) site_free(site_constructor(200));
}

// Runs after every other destructor of the program.
[[gnu::destructor(101)]] void last_destructor() {
  if (!working) return;
  site_free(from_first_constructor);
  site_destructor(301);  // leaked
  site_free(site_destructor(302));
}

struct Global {
  void* block = nullptr;
  ~Global() {
    if (working) {
      site_free(block);
      site_destructor(303);  // leaked
    }
  }
} global;

void at_exit() {
  for (void*& block : kept_by_atexit) {
    site_free(block);
    block = nullptr;
  }
  site_atexit(401);  // leaked
}

pthread_key_t key;
thread_local unsigned rounds;

// Sets the key again, so glibc calls it in each of its four rounds; the last block leaks.
void key_destructor(void* block) {
  site_free(block);
  ++rounds;
  pthread_setspecific(key, site_thread_exit(500 + rounds));
}

struct ThreadLocal {
  void* block = nullptr;
  ~ThreadLocal() {
    if (block != nullptr) site_free(block);
    site_free(site_thread_exit(510));
    site_thread_exit(511);  // leaked
  }
};
thread_local ThreadLocal thread_local_object;

void* thread(void*) {
  ledger::attach("leaving");
  pthread_setspecific(key, site_malloc(520));
  thread_local_object.block = site_malloc(521);
  return nullptr;
}

std::atomic<bool> may_be_cancelled{false};

void* cancelled_thread(void*) {
  ledger::attach("cancelled");
  thread_local_object.block = site_malloc(522);
  void* block = site_malloc(523);
  pthread_cleanup_push([](void* p) { site_free(p); }, block);
  may_be_cancelled = true;
  for (;;) pause();
  pthread_cleanup_pop(1);
}

void on_signal(int) {
  void* block = site_signal(601);
  site_free(block);
  site_signal(602);  // leaked
}

}  // namespace

int main() {
  if (working) {
    global.block = site_malloc(310);
    atexit(at_exit);
    for (void*& block : kept_by_atexit) block = site_malloc(402);

    // dlsym of an unknown name allocates its error message for each thread.
    for (int i = 0; i < 20; ++i) {
      void* before = site_malloc(700);
      LEDGER_CHECK(dlsym(RTLD_DEFAULT, "a_name_that_no_library_has") == nullptr);
      LEDGER_CHECK(dlerror() != nullptr);
      site_free(before);
    }

    pthread_key_create(&key, key_destructor);
    for (int i = 0; i < 4; ++i) {
      pthread_t handle;
      pthread_create(&handle, nullptr, thread, nullptr);
      pthread_join(handle, nullptr);
    }
    pthread_t handle;
    pthread_create(&handle, nullptr, cancelled_thread, nullptr);
    while (!may_be_cancelled) usleep(200);
    pthread_cancel(handle);
    pthread_join(handle, nullptr);

    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, nullptr);
    for (int i = 0; i < 10; ++i) raise(SIGUSR1);
    static char alternate[64 << 10];
    stack_t stack{};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    sigaltstack(&stack, nullptr);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    for (int i = 0; i < 10; ++i) raise(SIGUSR1);
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
