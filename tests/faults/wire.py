"""A proxy that reads Postgres's protocol: it counts the statements of a program, and strikes at one of them.

It sees every program alike, whatever driver or language it uses. A statement is a Query or a Bind message.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from tests.faults.points import Point, Strike, normalized, statement_key
from tests.proxy import FaultyProxy

# A client asks for encryption before its first message.
ENCRYPTION_REQUESTS = (80877103, 80877104)
# A statement that the server refuses for certain, before it has done anything.
REFUSED = b"select this_is_refused\0"
DEADLOCK = b"SERROR\0VERROR\0C40P01\0Mdeadlock detected\0\0"
# The end of a statement's response. What comes before it does not tell a client that it was done.
RESPONSE_ENDS = (b"C", b"E", b"I", b"Z")

Line = tuple[asyncio.StreamWriter, asyncio.StreamWriter]


class Victim(Protocol):
    """The program that a proxy strikes."""

    async def kill(self) -> None:
        """End it with SIGKILL."""

    async def freeze(self) -> None:
        """Stop it for a time; returns when it goes on."""

    async def expire(self) -> None:
        """Let its lease be over."""


@dataclass
class Session:
    """What one connection of a program has sent."""

    statements: dict[bytes, str] = field(default_factory=dict)
    # Struck once the server has done the statement under way.
    pending: Strike | None = None
    # The next error of the server is told as a deadlock.
    refused: bool = False
    was_ready: bool = False
    # The end of a response that the program must not see before the strike.
    held: bytes = b""


class WireProxy(FaultyProxy):
    """Passes the messages of one program's connections, counts its statements and strikes at the given points."""

    def __init__(
        self, url: str, strikes: Sequence[Strike] = (), *, delay: float, alike: Callable[[str], str] = normalized
    ) -> None:
        super().__init__(url)
        self._alike = alike
        self.victim: Victim | None = None
        self.points: list[Point] = []
        self.texts: dict[str, str] = {}
        self.commits = 0
        self.struck: list[Strike] = []
        self._waiting = {strike.point: strike for strike in strikes}
        self._seen: Counter[str] = Counter()
        self._sessions: dict[Line, Session] = {}
        self._delay = delay

    async def _pump(
        self, line: Line, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        session = self._sessions.setdefault(line, Session())
        with suppress(asyncio.CancelledError):
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                if not answers:
                    await self._start(source, target, line[0])
                while True:
                    await self._pass_message(line, session, source, target, answers=answers)
            # The other end does not hear of this end's close either.
            while line in self._deaf:
                await asyncio.sleep(0.05)

    async def _pass_message(
        self,
        line: Line,
        session: Session,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        answers: bool,
    ) -> None:
        kind = await source.readexactly(1)
        size = await source.readexactly(4)
        body = await source.readexactly(struct.unpack("!i", size)[0] - 4)
        handle = self._from_server if answers else self._from_program
        message = await handle(line, session, kind, body)
        while line in self._deaf:
            await asyncio.sleep(0.05)
        target.write(message)
        await target.drain()

    async def _start(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        """The first messages of a connection have no type."""
        while True:
            size = await source.readexactly(4)
            body = await source.readexactly(struct.unpack("!i", size)[0] - 4)
            code = struct.unpack("!i", body[:4])[0]
            if code in ENCRYPTION_REQUESTS:
                client.write(b"N")
                continue
            target.write(size + body)
            await target.drain()
            return

    async def _from_program(self, line: Line, session: Session, kind: bytes, body: bytes) -> bytes:
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            session.statements[name] = sql.decode(errors="replace")
        strike = None
        if kind == b"Q":
            strike = self._count(body.rstrip(b"\0").decode(errors="replace"))
        elif kind == b"B":
            strike = self._count(session.statements.get(body.split(b"\0", 2)[1], ""))
        if strike is None:
            return _message(kind, body)
        if strike.fault == "raise":
            self.struck.append(strike)
            session.refused = True
            # The server skips what follows a Parse that it refuses, up to the next Sync.
            return _message(b"Q", REFUSED) if kind == b"Q" else _message(b"P", b"\0" + REFUSED + b"\0\0")
        return await self._strike_before(line, session, strike, _message(kind, body))

    async def _strike_before(self, line: Line, session: Session, strike: Strike, message: bytes) -> bytes:
        assert self.victim is not None
        if strike.fault == "kill_before":
            self.struck.append(strike)
            await self.victim.kill()
            self._abort(line)
            raise ConnectionAbortedError
        if strike.fault == "stop_before":
            self.struck.append(strike)
            await self.victim.freeze()
        elif strike.fault == "delay":
            self.struck.append(strike)
            await self.victim.expire()
            await asyncio.sleep(self._delay)
        else:
            session.pending = strike
        return message

    async def _from_server(self, line: Line, session: Session, kind: bytes, body: bytes) -> bytes:
        message = _message(kind, body)
        if kind == b"E" and session.refused:
            session.refused = False
            message = _message(b"E", DEADLOCK)
        if kind == b"Z":
            self.commits += session.was_ready and body == b"I"
            session.was_ready = True
        if session.pending is None or kind not in RESPONSE_ENDS:
            return message
        # Until the server is ready: then it has committed what is not within a transaction.
        session.held += message
        if kind != b"Z":
            return b""
        strike, session.pending = session.pending, None
        held, session.held = session.held, b""
        await self._strike_after(line, strike)
        return held

    async def _strike_after(self, line: Line, strike: Strike) -> None:
        assert self.victim is not None
        self.struck.append(strike)
        if strike.fault == "stop_after":
            await self.victim.freeze()
        elif strike.fault == "half_open":
            self._deaf.add(line)
        else:
            if strike.fault == "kill_after":
                await self.victim.kill()
            self._abort(line)
            raise ConnectionAbortedError

    def _count(self, sql: str) -> Strike | None:
        key = statement_key(sql, self._alike)
        self.texts.setdefault(key, normalized(sql))
        self._seen[key] += 1
        point = Point(key, self._seen[key])
        self.points.append(point)
        return self._waiting.pop(point, None)

    def _abort(self, line: Line) -> None:
        for end in line:
            end.transport.abort()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
