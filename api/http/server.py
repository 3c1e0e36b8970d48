"""The HTTP server: uvicorn, with the bounds of BoundedHttp and without its signal handlers."""

import contextlib
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from atlas.api.http.protocol import BoundedHttp, CountedWebSocket, ServerConfig
from atlas.api.limits.client_connections import ClientConnections

# Clients that watch or wait for a job reconnect by themselves; no other request takes longer.
SHUTDOWN_SECONDS = 3
MAX_FRAME = 64 * 1024
# In tenths of a second, as uvicorn ticks.
SWEEP_TICKS = 5


def http_server(app: ASGIApp, clients: ClientConnections, *, host: str = "127.0.0.1", port: int = 0) -> "HttpServer":
    """A server for the application, which counts its connections in `clients`."""
    config = ServerConfig(
        app,
        host=host,
        port=port,
        http=BoundedHttp,
        ws=CountedWebSocket,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # api/http/client_address.py reads them
        lifespan="on",
        ws_max_size=MAX_FRAME,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    config.clients = clients
    return HttpServer(config)


class HttpServer(uvicorn.Server):
    """A server that sweeps its connections and installs no signal handlers: the program has its own."""

    config: ServerConfig

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self.config.clients.sweep()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
