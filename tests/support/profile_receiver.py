"""An HTTP server in the place of Pyroscope or a collector. It keeps the requests, and answers each as it is told."""

import contextlib
import gzip
import http.server
import socket
import ssl
import threading
import urllib.parse
from dataclasses import dataclass


@dataclass
class Request:
    path: str
    query: dict
    headers: dict
    body: bytes  # uncompressed


def status(number, body=b"", **headers):
    """An answer, such as status(401, b"no such token", Content_Type="text/plain")."""
    def answer(handler):
        handler.send_response(number)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return answer


OK = status(200)


def hang(handler):
    """Answers nothing until the receiver ends, or the client goes."""
    handler.server.ended.wait(300)


def garbage(handler):
    handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x46 no HTTP\r\n\r\n")


def endless_body(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\r\n")
    while True:
        handler.wfile.write(b"\x0a" * 65536)


def endless_header(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-More: " + b"x" * 1024 + b"\r\n")


def drip(handler):
    """A byte of the answer now and then: never nothing, and never complete."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
        handler.wfile.write(bytes([byte]))
        if handler.server.ended.wait(0.05):
            return


def close(handler):
    """Closes the connection without an answer."""


class Receiver:
    """`answers`: for the requests in order; then OK. With `tls`, a certificate and its key, it is https."""

    def __init__(self, *answers, tls=None):
        self.requests = []
        self.answers = list(answers)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.close_connection = True
                body = self.rfile.read(int(self.headers["Content-Length"]))
                target = urllib.parse.urlsplit(self.path)
                if body[:2] == b"\x1f\x8b":
                    body = gzip.decompress(body)
                with receiver.lock:
                    receiver.requests.append(Request(target.path, dict(urllib.parse.parse_qsl(target.query)),
                                                     dict(self.headers), body))
                    answer = receiver.answers.pop(0) if receiver.answers else OK
                    receiver.lock.notify_all()
                with contextlib.suppress(OSError):
                    answer(self)

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients that do not trust the certificate, or go away

        self.lock = threading.Condition()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.ended = threading.Event()
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def wait_for(self, count, timeout=60):
        """Until so many requests have come."""
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.requests) >= count, timeout), \
                f"{len(self.requests)} of {count} requests in {timeout} s"

    def stop(self):
        self.server.ended.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


_closed = []  # sockets, which are open until the process ends


def closed_port():
    """A port at which nobody listens. It is this process's until it ends: no other program gets it."""
    one = socket.socket()
    _closed.append(one)
    one.bind(("127.0.0.1", 0))  # and no listen(): a connection is refused
    return one.getsockname()[1]
