"""Checks the address of a server that Atlas calls."""

import re
from urllib.parse import urlsplit

LONGEST_ADDRESS = 4000

_PRINTABLE = re.compile(r"[\x21-\x7e]*")


def check_address(text: str) -> str:
    """Return the address; ValueError with the reason why it cannot be called."""
    if len(text) > LONGEST_ADDRESS:
        raise ValueError(f"has more than {LONGEST_ADDRESS:,} characters")
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
