/* The program of the generated fleet: every byte that it allocates follows from its arguments (generate.py).
 *
 *   server CONFIG_BYTES REQUESTS SESSIONS CACHE_BYTES [SECONDS]
 *
 * All that is kept is live at the end of serve(), which is the peak. Sessions and the configuration are freed; the
 * cache is not, nor, in the build with -DLEAK, what remember_request() allocates. */
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { kRequestBytes = 100, kRememberedBytes = 64, kSessionBytes = 512 };

static void* volatile g_last; /* so that no allocation is removed */

static NOINLINE void* load_config(size_t bytes) { return g_last = malloc(bytes); }

#ifdef LEAK
static NOINLINE void remember_request(void) { g_last = malloc(kRememberedBytes); }
#endif

static NOINLINE void* parse_request(void) { return g_last = malloc(kRequestBytes); }

static NOINLINE void handle_request(void) {
  void* const request = parse_request();
  free(request);
#ifdef LEAK
  remember_request();
#endif
}

static NOINLINE void* open_session(void) { return g_last = malloc(kSessionBytes); }

static NOINLINE void fill_cache(size_t bytes) { g_last = malloc(bytes); }

static NOINLINE void serve(size_t requests, void** sessions, size_t session_count, size_t cache_bytes) {
  for (size_t i = 0; i < requests; ++i) handle_request();
  for (size_t i = 0; i < session_count; ++i) sessions[i] = open_session();
  fill_cache(cache_bytes);
}

int main(int count, char** arguments) {
  static void* sessions[100000];
  if (count < 5) return 2;
  const size_t session_count = strtoul(arguments[3], NULL, 10);
  if (session_count > sizeof sessions / sizeof sessions[0]) return 2;
  void* const config = load_config(strtoul(arguments[1], NULL, 10));
  serve(strtoul(arguments[2], NULL, 10), sessions, session_count, strtoul(arguments[4], NULL, 10));
  if (count > 5) sleep((unsigned)strtoul(arguments[5], NULL, 10));
  for (size_t i = 0; i < session_count; ++i) free(sessions[i]);
  free(config);
  return 0;
}
