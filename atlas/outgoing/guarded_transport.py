"""The HTTP transport for addresses that tenants choose: it connects to public addresses alone.

A name is resolved here, each of its addresses is checked, and the connection is made to a checked address. So a name
whose address changes between the check and the connection (DNS rebinding) gains nothing. The certificate is checked
against the name. Connections are not kept: two names at one address must not share one.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpx

from atlas.errors import AtlasError
from atlas.outgoing.http import CONNECT_SECONDS, tls_context

IpAddress = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

# A resolver that does not respond holds its thread for up to half a minute.
RESOLVERS = 16
# IPv4 addresses behind a translator to IPv6.
_NAT64 = ip_network("64:ff9b::/96")
# Only these IPv6 addresses are routed on the internet.
_GLOBAL_UNICAST = ip_network("2000::/3")
# The special-purpose networks of the IANA registries, listed here because releases of Python know different ones.
_SPECIAL: Networks = tuple(
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
    )
)


class AddressRefused(AtlasError):
    """The address is not public, or would be reached without encryption, and the settings do not allow it."""


class GuardedTransport(httpx.AsyncHTTPTransport):
    """Connects to public addresses over TLS, and to those in `allowed` as the request asks."""

    def __init__(self, allowed: Networks = ()) -> None:
        super().__init__(verify=tls_context(), trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
        self._allowed = allowed
        self._resolver = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="atlas-resolver")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the first address of its host that can be reached."""
        *others, last = await self._checked_addresses(request)
        for address in others:
            try:
                return await super().handle_async_request(_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await super().handle_async_request(_to(last, request))

    async def aclose(self) -> None:
        self._resolver.shutdown(wait=False, cancel_futures=True)
        await super().aclose()

    async def _checked_addresses(self, request: httpx.Request) -> list[IpAddress]:
        host = request.url.raw_host.decode("ascii")
        addresses = await self._resolve(host, request)
        for address in addresses:
            if is_allowed(address, self._allowed):
                continue
            # The address is not named: what a name means within this network is not the tenant's to know.
            if not is_public(address):
                raise AddressRefused(
                    f"{host} has an address that is not public.",
                    remedy="Use a public address, or let an operator add its network to ATLAS_HTTP_ALLOWED_NETWORKS.",
                )
            if request.url.scheme != "https":
                raise AddressRefused(f"{host} would be reached without encryption.", remedy="Use https.")
        return addresses

    async def _resolve(self, host: str, request: httpx.Request) -> list[IpAddress]:
        try:
            return [ip_address(host.strip("[]"))]
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        look_up = loop.run_in_executor(self._resolver, _look_up, host)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await look_up
        except TimeoutError:
            raise httpx.ConnectTimeout(f"The address of {host} could not be found in time.", request=request) from None
        except (OSError, UnicodeError, ValueError) as error:
            raise httpx.ConnectError(f"{host} has no address: {error}.", request=request) from error


def is_allowed(address: IpAddress, allowed: Networks) -> bool:
    """Whether an address is in one of the networks that the settings allow."""
    return any(_inner(address) in network for network in allowed)


def is_public(address: IpAddress) -> bool:
    """False for private, loopback, link-local, multicast and reserved addresses, also within an IPv6 address."""
    inner = _inner(address)
    if isinstance(inner, IPv6Address) and inner not in _GLOBAL_UNICAST:
        return False
    return not any(inner in network for network in _SPECIAL)


def _inner(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 address leads to, if it does; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1]) or address


def _look_up(host: str) -> list[IpAddress]:
    addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(entry[4][0])) for entry in addresses))


def _to(address: IpAddress, request: httpx.Request) -> httpx.Request:
    """The request with its address instead of its name. TLS and the Host header keep the name."""
    url = request.url.copy_with(host=str(address))
    extensions = {**request.extensions}
    if url.host != request.url.host:
        extensions["sni_hostname"] = request.url.raw_host.decode("ascii")
    return httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
