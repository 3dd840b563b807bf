/* An HTTP server and a client of it in one event loop. The client posts documents and asks for a "100 Continue"; the
   server keeps the last documents, as a cache with a limit. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { kRequests = 40000, kCached = 2000 };

/* glibc 2.36 has the other functions of arc4random, but not this one, which this libevent expects with them. */
void arc4random_addrandom(unsigned char* bytes, int count) {
  (void)bytes;
  (void)count;
}

static struct event_base* base;
static struct evhttp_connection* connection;
static char* cached[kCached];
static int received;
static int answered;

static void serve(struct evhttp_request* request, void* unused) {
  (void)unused;
  struct evbuffer* body = evhttp_request_get_input_buffer(request);
  size_t length = evbuffer_get_length(body);
  char** slot = &cached[received++ % kCached];
  free(*slot);
  *slot = malloc(length + 1);
  evbuffer_copyout(body, *slot, length);
  struct evbuffer* reply = evbuffer_new();
  evbuffer_add_printf(reply, "stored %zu bytes\n", length);
  evhttp_send_reply(request, HTTP_OK, "OK", reply);
  evbuffer_free(reply);
}

static void post(void);

static void finished(struct evhttp_request* request, void* unused) {
  (void)unused;
  if (request == NULL || evhttp_request_get_response_code(request) != HTTP_OK) {
    fprintf(stderr, "request %d failed\n", answered);
    exit(1);
  }
  if (++answered < kRequests) post();
  else event_base_loopexit(base, NULL);
}

static void post(void) {
  struct evhttp_request* request = evhttp_request_new(finished, NULL);
  struct evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Host", "localhost");
  evhttp_add_header(headers, "Expect", "100-continue");
  struct evbuffer* body = evhttp_request_get_output_buffer(request);
  char line[120];
  memset(line, 'a' + answered % 26, sizeof line);
  for (int count = 1 + answered % 8; count > 0; --count) evbuffer_add(body, line, sizeof line);
  evhttp_make_request(connection, request, EVHTTP_REQ_POST, "/store");
}

int main(void) {
  base = event_base_new();
  struct evhttp* server = evhttp_new(base);
  evhttp_set_gencb(server, serve, NULL);
  struct evhttp_bound_socket* bound = evhttp_bind_socket_with_handle(server, "127.0.0.1", 0);
  if (bound == NULL) return 1;
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr*)&address, &length);
  connection = evhttp_connection_base_new(base, NULL, "127.0.0.1", ntohs(address.sin_port));
  post();
  event_base_dispatch(base);
  evhttp_connection_free(connection);
  evhttp_free(server);
  for (int index = 0; index < kCached; ++index) free(cached[index]);
  event_base_free(base);
  return 0;
}
