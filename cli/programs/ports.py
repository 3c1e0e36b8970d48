"""Checks that the API can listen on its port, before anything is started."""

import asyncio
import errno
import socket

from atlas.errors import AtlasError

# The children of a killed program release the port a little after it. A start in between waits for them.
RELEASE_SECONDS = 3.0
_RETRY_SECONDS = 0.1


class PortUnavailable(AtlasError):
    """The API cannot listen on the address it was given."""


def http_address(host: str, port: int) -> str:
    """The address of what listens there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def require_port(host: str, port: int, *, within: float = 0) -> None:
    """Return when `host:port` can be listened on; raise with the reason if it cannot be in that time."""
    end = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await asyncio.to_thread(_try_to_listen, host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or asyncio.get_running_loop().time() >= end:
                raise _unavailable(host, port, error) from error
        await asyncio.sleep(_RETRY_SECONDS)


def bind_shared(host: str, port: int) -> list[socket.socket]:
    """Sockets on `host:port`, which several processes may each listen on: the kernel spreads connections over them."""
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        sockets.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # As asyncio does, so that IPv4 has a socket of its own.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # A free port that was taken for the first address is the port of the others too.
        sock.bind((address[0], sockets[0].getsockname()[1] or port, *address[2:]))
    return sockets


def _try_to_listen(host: str, port: int) -> None:
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as attempt:
            # As the server does: old connections that linger do not count.
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
            attempt.listen()


def _unavailable(host: str, port: int, error: OSError) -> PortUnavailable:
    if error.errno == errno.EADDRINUSE:
        return PortUnavailable(
            f"Port {port} of {host} is in use by another program.",
            remedy="Stop it, or choose another port with ATLAS_PORT or --port.",
        )
    if error.errno == errno.EACCES:
        return PortUnavailable(
            f"This user may not listen on port {port} of {host}.",
            remedy="Choose a port from 1024 on with ATLAS_PORT or --port.",
        )
    return PortUnavailable(
        f"Cannot listen on {host}: {(error.strerror or str(error)).rstrip('.')}.",
        remedy="Set ATLAS_HOST to an address of this machine, such as 127.0.0.1 or 0.0.0.0.",
    )
