"""Checks the address of a server that Atlas calls."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from atlas.settings import Networks

MAX_ADDRESS_LENGTH = 4000

_PRINTABLE = re.compile(r"[\x21-\x7e]*")


def check_address(text: str) -> str:
    """Return the address; ValueError with the reason why it cannot be called."""
    if len(text) > MAX_ADDRESS_LENGTH:
        raise ValueError(f"has more than {MAX_ADDRESS_LENGTH:,} characters")
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("holds a space, a control character or a letter beyond ASCII; encode it")
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https"):
        raise ValueError("is not the address of a server, such as https://example.com/hook")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user name or a password; send them in a header")
    return text


def check_reachable(text: str, allowed: Networks) -> None:
    """ValueError with the reason why no worker would call an address: those of the guard of outgoing calls.

    Names are not resolved: what one means may change, and each call checks it.
    """
    # Imported here: it loads what only calls need.
    from atlas.outgoing.guarded_transport import is_allowed, is_public

    parts = urlsplit(text)
    host = (parts.hostname or "").lower()
    is_local = host == "localhost" or host.endswith(".localhost")
    try:
        address = ip_address("127.0.0.1" if is_local else host)
    except ValueError:
        address = None
    if address is not None and is_allowed(address, allowed):
        return
    if address is not None and not is_public(address):
        reason = "is not a public address, so no worker calls it"
        raise ValueError(f"{reason}; use a public one, or add its network to ATLAS_HTTP_ALLOWED_NETWORKS")
    if parts.scheme != "https" and (address is not None or not allowed):
        raise ValueError("would be called without encryption, which no worker does; use https")
