"""Where rows are forwarded to. `send` returns once the destination has them, and raises `Undelivered` otherwise."""

import asyncio
import fcntl
import os
import socket
import ssl
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from atlas.audit.forwarding.sealed_rows import SealedRow
from atlas.audit.forwarding.shapes import SHAPES, Shape
from atlas.audit.forwarding.syslog import syslog_frame
from atlas.errors import AtlasError, FieldError, InvalidInput, SettingsError
from atlas.outgoing.http import FAILURES, http_client, tls_context

SYSLOG_PORT = 6514
CONNECT_SECONDS = 10.0
# How long a receiver may take to read a chunk and close the connection.
CONFIRM_SECONDS = 30.0
CONFIRM_TRIES, CONFIRM_PAUSE = 100, 0.05
MEDIA_TYPES = {"json": "application/x-ndjson", "ocsf": "application/x-ndjson", "cef": "text/plain; charset=utf-8"}


class Undelivered(AtlasError):
    """The destination did not take the rows; they are sent again."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files that prove who sends: a client certificate with its key, a token; and one of authorities to trust."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: Path | None = None


class Destination(Protocol):
    """Takes rows in their order."""

    async def send(self, rows: Sequence[SealedRow]) -> None:
        """Return once the destination has all of them."""

    async def close(self) -> None:
        """Release what it holds."""


def open_destination(address: str, shape: str, credentials: Credentials | None = None) -> Destination:
    """The destination of an address: `syslog+tls://HOST[:PORT]`, `https://…`, `file:///PATH` or a path."""
    if shape not in SHAPES:
        raise InvalidInput("The forwarder", [FieldError("shape", f"is not one of {', '.join(SHAPES)}")])
    own_credentials = credentials or Credentials()
    parts = urlsplit(address)
    match parts.scheme:
        case "syslog+tls" if parts.hostname:
            return SyslogServer(parts, SHAPES[shape], _tls(own_credentials))
        case "https" if parts.hostname:
            return HttpsCollector(address, shape, _tls(own_credentials), own_credentials.token)
        case "file" if parts.path and not parts.netloc:
            return AppendedFile(Path(unquote(parts.path)), SHAPES[shape])
        case "" if address:
            return AppendedFile(Path(address), SHAPES[shape])
    reason = "is not one of syslog+tls://HOST[:PORT], https://HOST/PATH, file:///PATH or a path"
    raise InvalidInput("The forwarder", [FieldError("destination", reason)])


class SyslogServer:
    """RFC 5424 over TLS (RFC 5425), framed by octet counts.

    Syslog has no acknowledgement. So each chunk has a connection of its own, which is closed after it. A receiver that
    then closes its side in order, and whose system has confirmed every byte, has read everything: a connection that is
    closed with bytes unread, or before they arrive, is reset.
    """

    def __init__(self, address: SplitResult, shape: Shape, tls: ssl.SSLContext) -> None:
        self._host, self._port = address.hostname or "", address.port or SYSLOG_PORT
        self._shape = shape
        self._tls = tls

    async def send(self, rows: Sequence[SealedRow]) -> None:
        """Send a chunk and wait until the receiver has read it."""
        frames = b"".join(syslog_frame(row, self._shape(row)) for row in rows)
        try:
            await asyncio.to_thread(self._deliver, frames)
        except (OSError, ValueError) as error:
            raise Undelivered(
                f"The syslog server {self._host}:{self._port} did not take the rows: {error or type(error).__name__}.",
                remedy="Check its address and certificate (--ca), and that it closes connections that were closed.",
            ) from error

    def _deliver(self, frames: bytes) -> None:
        with socket.create_connection((self._host, self._port), CONNECT_SECONDS) as plain:
            plain.settimeout(CONFIRM_SECONDS)
            with self._tls.wrap_socket(plain, server_hostname=self._host) as secure:
                secure.sendall(frames)
                # Many close the connection without closing TLS first.
                with suppress(ssl.SSLEOFError):
                    secure.unwrap()
                _require_confirmed(secure)

    async def close(self) -> None:
        """Nothing is held between chunks."""


class HttpsCollector:
    """POSTs each chunk, a row a line. The collector has it once it responds with 2xx."""

    def __init__(self, address: str, shape: str, tls: ssl.SSLContext, token: Path | None) -> None:
        self._address = address
        self._shape = SHAPES[shape]
        self._headers = {"Content-Type": MEDIA_TYPES[shape]}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_read(token)}"
        self._client = http_client(verify=tls)

    async def send(self, rows: Sequence[SealedRow]) -> None:
        """Send a chunk and wait for the response."""
        body = b"".join(self._shape(row) + b"\n" for row in rows)
        span = {"Atlas-Audit-First": str(rows[0].number), "Atlas-Audit-Last": str(rows[-1].number)}
        try:
            response = await self._client.post(self._address, content=body, headers=self._headers | span)
        except FAILURES as error:
            raise Undelivered(f"The collector did not take the rows: {error or type(error).__name__}.") from error
        if not response.is_success:
            raise Undelivered(
                f"The collector responded with {response.status_code}.",
                remedy="Check its address and the token (--token-file)." if response.is_client_error else "",
            )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class AppendedFile:
    """Appends a line for each row, and waits for the disk. It may be rotated: it is opened anew for each chunk."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._path = path
        self._shape = shape

    async def send(self, rows: Sequence[SealedRow]) -> None:
        """Append a chunk and wait until it is on the disk."""
        lines = b"".join(self._shape(row) + b"\n" for row in rows)
        try:
            await asyncio.to_thread(self._append, lines)
        except OSError as error:
            raise Undelivered(f"{self._path} cannot be written: {error.strerror or error}.") from error

    def _append(self, lines: bytes) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_torn_line(file.fileno())
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    async def close(self) -> None:
        """Nothing is held between chunks."""


def _require_confirmed(connection: socket.socket) -> None:
    """Wait until the other system has confirmed every byte; ConnectionResetError if it does not."""
    for _ in range(CONFIRM_TRIES):
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            break
        if int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder) == 0:
            return
        time.sleep(CONFIRM_PAUSE)
    raise ConnectionResetError("The connection was closed before everything was read.")


def _cut_torn_line(descriptor: int) -> None:
    """Remove the end of a line that a crash cut off: its row is sent again."""
    end = os.fstat(descriptor).st_size
    keep = end
    while keep > 0:
        start = max(0, keep - 65_536)
        newline = os.pread(descriptor, keep - start, start).rfind(b"\n")
        if newline >= 0:
            keep = start + newline + 1
            break
        keep = start
    if keep < end:
        os.ftruncate(descriptor, keep)


def _tls(credentials: Credentials) -> ssl.SSLContext:
    if credentials.authorities is None and credentials.certificate is None:
        return tls_context()
    try:
        context = ssl.create_default_context(cafile=credentials.authorities)
        if credentials.certificate is not None:
            context.load_cert_chain(credentials.certificate, credentials.key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"A certificate or key of the forwarder cannot be read: {error}.") from error
    return context


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"The token file {file} cannot be read: {error.strerror}.") from error
