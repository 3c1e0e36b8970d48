"""Connections of clients: how many are open at once, in all and from one address, and for how long without a request.

A connection that waits for a request costs a file and nothing else, so it is kept only while there is room: at the
limit the one that has waited longest is closed for the new one. A new one is refused only if all others are being
served. So silent connections, however many, keep no other client out.
"""

import resource
import time
from asyncio import Transport
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from atlas.api.http.client_address import TrustedProxies, holder_of
from atlas.logs import get_logger

log = get_logger("api")

# Of the files that the process may open; the rest is for the database, logs and what is being closed.
SHARE_OF_FILES = 2 / 3
MOST = 10_000
# How long a head may take, and a connection may be open before its first request.
HEAD_SECONDS = 10.0
# How long a refused client may take to read its response.
LINGER_SECONDS = 2.0
# How long a client may read nothing of what is sent to it.
STALL_SECONDS = 30.0
# How often a limit that is reached is logged.
LOG_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class ClientConnection:
    """One open connection. `expire` is called when it has waited until `ends_at`."""

    transport: Transport
    holder: object
    expire: Callable[[], None]
    ends_at: float = inf
    unsent: int = 0
    sent_at: float = field(default_factory=time.monotonic)


class ClientConnections:
    """The open connections of one process. Those of trusted proxies, which serve many, are limited in all alone."""

    def __init__(self, proxies: TrustedProxies, *, files: int | None = None) -> None:
        limit = files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = min(MOST, int(limit * SHARE_OF_FILES)) if limit > 0 else MOST
        self.max_each = self.most // 2
        # How often something was refused, by reason.
        self.refused: Counter[str] = Counter()
        self._proxies = proxies
        self._open: set[ClientConnection] = set()
        # Those that wait for a request, the longest first.
        self._waiting: dict[ClientConnection, None] = {}
        self._each: Counter[object] = Counter()
        self._logged: Counter[str] = Counter()
        self._logs_at = 0.0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transport: Transport, address: str | None, expire: Callable[[], None]) -> ClientConnection | None:
        """Count a new connection; None if there are too many that are being served."""
        holder = None if address in self._proxies else holder_of(address)
        if holder is not None and self._each[holder] >= self.max_each:
            has_room = self._make_room("connections_of_address", holder)
        else:
            has_room = len(self._open) < self.most or self._make_room("connections", None)
        if not has_room:
            return None
        connection = ClientConnection(transport, holder, expire)
        self._open.add(connection)
        self._each[holder] += 1
        self.await_request(connection)
        return connection

    def remove(self, connection: ClientConnection) -> None:
        """The connection is closed, or will be immediately."""
        if connection in self._open:
            self._open.remove(connection)
            self._waiting.pop(connection, None)
            self._each[connection.holder] -= 1
            if not self._each[connection.holder]:
                del self._each[connection.holder]

    def await_request(self, connection: ClientConnection) -> None:
        """The connection waits for a request from now on, unless it does already."""
        if connection in self._open and connection not in self._waiting:
            connection.ends_at = time.monotonic() + HEAD_SECONDS
            self._waiting[connection] = None

    def serve(self, connection: ClientConnection) -> None:
        """A request has arrived."""
        connection.ends_at = inf
        self._waiting.pop(connection, None)

    def linger(self, connection: ClientConnection) -> None:
        """The client has got its last response, and some time to read it."""
        connection.ends_at = time.monotonic() + LINGER_SECONDS

    def sweep(self) -> None:
        """End the connections whose time is over, and log what was refused."""
        now = time.monotonic()
        for connection in list(self._open):
            unsent = connection.transport.get_write_buffer_size()
            if unsent != connection.unsent or not unsent:
                connection.unsent, connection.sent_at = unsent, now
            if now - connection.sent_at > STALL_SECONDS:
                self.refused["stalled"] += 1
                connection.transport.abort()
            elif now > connection.ends_at:
                connection.expire()
        if self.refused != self._logged and now >= self._logs_at:
            reasons = self.refused - self._logged
            log.warning("connections were refused or closed", open=len(self), most=self.most, **reasons)
            self._logged, self._logs_at = self.refused.copy(), now + LOG_SECONDS

    def _make_room(self, reason: str, holder: object) -> bool:
        """Close the connection that has waited longest, of this holder or of all, and that has read its responses."""
        self.refused[reason] += 1
        for connection in self._waiting:
            if holder in (None, connection.holder) and not connection.transport.get_write_buffer_size():
                self.remove(connection)
                connection.transport.abort()
                return True
        return False
