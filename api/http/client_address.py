"""The network address that a request comes from, also behind proxies.

A proxy that ATLAS_TRUSTED_PROXIES names passes on the address of its caller. From anyone else the same headers are
text that the caller made up, and are ignored. Without the setting no proxy is trusted.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

MAX_CACHED = 4096
# The part of an IPv6 address that says whose it is: the holder of a network chooses the rest at will.
HOLDER_BITS = 64


class TrustedProxies:
    """The proxies whose word about their callers is taken."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self.networks = tuple(networks)
        self._is_trusted = lru_cache(MAX_CACHED)(self._look_up)

    def __contains__(self, address: str | None) -> bool:
        return bool(self.networks) and address is not None and self._is_trusted(address)

    def apply(self, scope: Scope) -> None:
        """Put the caller's address and scheme in the place of the proxy's, where the request came through one."""
        client = scope.get("client")
        if not client or plain_address(client[0]) not in self:
            return
        caller, proxies = self._caller(scope)
        if caller is not None:
            scope["client"] = (caller, 0)
        # One of each proxy, as with the addresses; a proxy that replaces the header sends a single one.
        schemes = _listed(scope, b"x-forwarded-proto")
        scheme = schemes[-min(proxies, len(schemes))].lower()
        if scheme in ("http", "https"):
            is_socket, is_secure = scope["type"] == "websocket", scheme == "https"
            scope["scheme"] = ("ws" if is_socket else "http") + ("s" if is_secure else "")

    def _caller(self, scope: Scope) -> tuple[str | None, int]:
        """The last address that no trusted proxy has, and how many proxies passed the request on since.

        Each proxy adds its caller's address at the end, and may be sent others. One that adds none may send X-Real-IP.
        None where that is not an address; the request then counts as the proxy's own.
        """
        addresses = _listed(scope, b"x-forwarded-for")
        if addresses == [""]:
            return plain_address(_listed(scope, b"x-real-ip")[-1]), 1
        for proxies, text in enumerate(reversed(addresses), 1):
            address = plain_address(text)
            if address not in self:
                return address, proxies
        return plain_address(addresses[0]), len(addresses)

    def _look_up(self, address: str) -> bool:
        ip = ip_address(address)
        return any(ip in network for network in self.networks)


def _listed(scope: Scope, header: bytes) -> list[str]:
    """The values of a header, which may come several times with several values each; at least one, maybe empty."""
    lines = [value for name, value in scope["headers"] if name == header]
    return [value.strip() for value in b",".join(lines).decode("latin-1").split(",")]


@lru_cache(MAX_CACHED)
def plain_address(text: str) -> str | None:
    """The address in its one spelling, an IPv4 address in an IPv6 one as itself; None if the text is none."""
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def holder_of(address: str | None) -> object:
    """Who counts as one where something is limited by address: an IPv4 address, or an IPv6 network."""
    if address is None or ":" not in address:
        return address
    return int(IPv6Address(address)) >> (128 - HOLDER_BITS)
