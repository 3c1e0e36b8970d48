"""A real server on loopback, in a thread with a loop and a pool of its own, for callers that speak HTTP themselves."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI

from atlas.api.app import create_app
from atlas.api.http.server import http_server
from atlas.api.limits.rates import Rates
from atlas.db.pool import open_pool
from atlas.settings import Settings


class Served:
    """An API that listens; `address` is where."""

    def __init__(self, url: str, settings: Settings, rates: Rates, *, tick: Any = None, port: int = 0) -> None:
        self._make: Callable[..., FastAPI] = lambda pool: create_app(settings, pool, url, rates=rates, tick=tick)
        self._url = url
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        # By its protocol's name: asyncio sends small answers at once only where it knows that this is TCP.
        self.listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listening.bind(("127.0.0.1", port))
        self.world: Any = None
        self.app: FastAPI
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)

    def within(self, work: Callable[[], None]) -> None:
        """Do something in the server's own loop."""
        self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(setattr, self._server, "should_exit", True)
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        pool = await open_pool(self._url, size=12)
        self._loop = asyncio.get_running_loop()
        self.app = self._make(pool)
        self._server = http_server(self.app, self.app.state.api.clients)
        self._server.config.timeout_graceful_shutdown = 1
        serving = asyncio.create_task(self._server.serve(sockets=[self.listening]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        self._ready.set()
        await serving
        await pool.close()


@contextmanager
def served(url: str, settings: Settings, rates: Rates, *, tick: Any = None) -> Iterator[Served]:
    server = Served(url, settings, rates, tick=tick)
    server.start()
    try:
        yield server
    finally:
        server.stop()
