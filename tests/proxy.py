"""A faulty network before a server: it can cut lines, refuse them, go silent, and swallow answers that were given."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit


class FaultyProxy:
    """Passes bytes between a TCP port on loopback and the server, until a test makes it misbehave."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._database = parts.path.lstrip("/")
        self._user = parts.username or "postgres"
        self._password = parts.password
        self._socket = parse_qs(parts.query).get("host", [None])[0]
        self._address = (parts.hostname, parts.port or 5432)
        self._lines: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._deaf: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallows = False
        self._swallowed = asyncio.Event()
        self.silent = False
        self.refuses = False

    async def __aenter__(self) -> "FaultyProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """Where a server that speaks HTTP is found behind it."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def lead_to(self, url: str) -> None:
        """From now on, new lines lead to another server."""
        parts = urlsplit(url)
        self._socket = parse_qs(parts.query).get("host", [None])[0]
        self._address = (parts.hostname, parts.port or 5432)

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        login = self._user if self._password is None else f"{self._user}:{self._password}"
        return f"postgresql://{login}@127.0.0.1:{port}/{self._database}?sslmode=disable"

    def cut(self) -> None:
        """Reset every line that is open now."""
        for line in list(self._lines):
            for end in line:
                end.transport.abort()
        self._lines.clear()

    def say_crashed(self) -> None:
        """Tell every client what a server says that crashes. The end of the lines comes later."""
        fields = b"SFATAL\0VFATAL\0C57P02\0Mterminating connection because of crash of another server process\0\0"
        for client, _ in self._lines:
            client.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    def sink(self) -> None:
        """Let every line that is open now go silent for good, as when a server loses its power; new ones work."""
        self._deaf |= self._lines

    async def swallow(self, seconds: float) -> None:
        """Let requests through and keep the answers back, then reset: the server did it, the client never hears."""
        self.swallows = True
        await asyncio.sleep(seconds)
        self.cut()
        self.swallows = False

    async def swallow_answer(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """Let requests through until the server has answered one; do what comes `then`, and reset instead of passing it on."""
        self._swallowed.clear()
        self.swallows = True
        await self._swallowed.wait()
        if then is not None:
            await then()
        self.cut()
        self.swallows = False

    def break_down(self) -> None:
        """Reset every line, and every new one until `refuses` is False again."""
        self.refuses = True
        self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await self._reach()
        except OSError:
            writer.transport.abort()
            return
        line = (writer, there[1])
        self._lines.add(line)
        pumps = [self._pump(line, reader, there[1], answers=False), self._pump(line, there[0], writer, answers=True)]
        running = [asyncio.create_task(pump) for pump in pumps]
        self._tasks.update(running)
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for end in line:
            end.transport.abort()
        self._lines.discard(line)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.refuses:
            raise ConnectionRefusedError
        if self._socket:
            return await asyncio.open_unix_connection(f"{self._socket}/.s.PGSQL.5432")
        return await asyncio.open_connection(*self._address)

    async def _pump(
        self,
        line: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        answers: bool,
    ) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            while data := await source.read(65536):
                while self.silent or line in self._deaf:
                    await asyncio.sleep(0.01)
                if answers and self.swallows:
                    self._swallowed.set()
                else:
                    target.write(data)
                    await target.drain()
            while line in self._deaf:  # the other end does not hear of this end's close either
                await asyncio.sleep(0.05)
