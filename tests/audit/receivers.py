"""Receivers of a forwarded audit log on loopback: a syslog listener over TLS, and an HTTPS collector that can fail."""

import contextlib
import http.server
import re
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import trustme

HEADER = re.compile(rb'<(\d+)>1 (\S+) (\S+) atlas - (\S+) \[meta sequenceId="(\d+)"\] (.*)', re.DOTALL)


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


class SyslogListener:
    """Reads frames by their octet counts. `resets` of the next connections are broken off after some bytes."""

    def __init__(self, authority: trustme.CA) -> None:
        self._tls = server_tls(authority)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.frames: list[bytes] = []
        self.connections = 0
        self.resets = 0

    def serve(self) -> None:
        """Take connections until the socket is closed."""
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                self._take(plain)

    def _take(self, plain: socket.socket) -> None:
        self.connections += 1
        with self._tls.wrap_socket(plain, server_side=True) as secure:
            if self.resets > 0:
                self.resets -= 1
                secure.recv(100)
                # Closing it now sends a reset: what is left to read is lost.
                secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            read = b""
            while piece := secure.recv(65_536):
                read += piece
            while read:
                count, _, read = read.partition(b" ")
                self.frames.append(read[: int(count)])
                read = read[int(count) :]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Collector(http.server.ThreadingHTTPServer):
    """Stores the lines of each request. `fails` says of the next requests whether they are stored before a 500."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.socket = server_tls(authority).wrap_socket(self.socket, server_side=True)
        self.lines: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.fails: list[bool] = []
        # Requests after so many are stored and get no response while the test holds them.
        self.hold_after: int | None = None
        self.holding = threading.Event()
        self.released = threading.Event()


class _Request(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stored = self.server.fails.pop(0) if self.server.fails else None
        if stored is not False:
            self.server.lines += body.splitlines()
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.hold_after is not None and len(self.server.headers) > self.server.hold_after:
            self.server.holding.set()
            self.server.released.wait(60)
            return
        self.send_response(204 if stored is None else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def listening(authority: trustme.CA) -> Iterator[SyslogListener]:
    listener = SyslogListener(authority)
    thread = threading.Thread(target=listener.serve, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.close()
        thread.join()


@contextlib.contextmanager
def collecting(authority: trustme.CA) -> Iterator[Collector]:
    with Collector(authority) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            collector.released.set()
            collector.shutdown()


def authorities(authority: trustme.CA, folder: Path) -> Path:
    """The file that --ca names."""
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file
