"""Mail addresses and other header values: what they may hold, and how they are written and shown.

A value with a line break adds header lines that were not checked: another recipient, another sender. So every
character that some reader takes for a line break is refused, not removed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import idna

MAX_LOCAL_PART_LENGTH = 64
MAX_DOMAIN_LENGTH = 253
MAX_NAME_LENGTH = 200
MAX_RECIPIENTS = 50

# Control characters and all that `str.splitlines` breaks at: CR, LF, NUL, VT, FF, FS, GS, RS, NEL, LS, PS.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_PLAIN = re.compile(
    r"(?:([A-Za-z][A-Za-z ]{0,40}[A-Za-z]) <)?"
    r"([a-z0-9]+(?:[._-][a-z0-9]+)*@(?:[a-z0-9]+\.)+[a-z]{2,20})(?(1)>)"
)
_SHOWN = re.compile(r"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-])[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{0,63}@(?=[A-Za-z0-9])")
_NEEDS_QUOTES = re.compile(r"[^\w !#$%&\'*+/=?^`{|}~-]")


class Address(NamedTuple):
    """A mailbox, and its owner's name where one was given."""

    address: str
    name: str = ""

    def __str__(self) -> str:
        """As a header holds it, before letters beyond ASCII are encoded."""
        if not self.name:
            return self.address
        return f"{quoted(self.name)} <{self.address}>"


def parse_addresses(given: object) -> tuple[Address, ...]:
    """One address or a list of them, each `ada@example.com`, `Ada <ada@example.com>` or `{address, name?}`."""
    if given is None:
        return ()
    if isinstance(given, (str, dict, Address)):
        return (parse_address(given),)
    if not isinstance(given, list | tuple):
        raise ValueError("must be an address or a list of addresses")
    if len(given) > MAX_RECIPIENTS:
        raise ValueError(f"has more than {MAX_RECIPIENTS} addresses")
    return tuple(_nth(given, index) for index in range(len(given)))


def parse_some_addresses(given: object) -> tuple[Address, ...]:
    """Parse addresses, at least one."""
    found = parse_addresses(given)
    if not found:
        raise ValueError("has no address")
    return found


def parse_address(given: object) -> Address:
    """One address, or a ValueError that says what is wrong with it without repeating it."""
    if isinstance(given, str):
        # Nearly all addresses match this pattern, and need no further check.
        plain = _PLAIN.fullmatch(given)
        if plain is not None and len(given) <= MAX_LOCAL_PART_LENGTH:
            return Address(plain[2], plain[1] or "")
        name, address = _split(given)
    elif isinstance(given, Address):
        return given
    elif isinstance(given, dict) and given.keys() <= {"address", "name"} and isinstance(given.get("address"), str):
        name, address = given.get("name") or "", given["address"]
    else:
        raise ValueError("must be an address, or an object with address and name")
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
        raise ValueError(f"has a name that is not a text of at most {MAX_NAME_LENGTH} characters")
    return Address(_checked(check_header(address)), check_header(name).strip())


def check_header(text: str) -> str:
    """Return the text if a header can hold it: no line break and no control character of any kind."""
    if _BREAKS.search(text):
        raise ValueError("holds a line break or a control character")
    return text


def quoted(name: str) -> str:
    """A name as a header holds it: in quotes where it has special characters."""
    if not _NEEDS_QUOTES.search(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def shorten(text: str) -> str:
    """The text with every address in it cut to its first letter and its domain: d***@example.com."""
    return _SHOWN.sub(r"\1***@", text)


def _nth(given: Sequence[object], index: int) -> Address:
    try:
        return parse_address(given[index])
    except ValueError as error:
        raise ValueError(f"address {index + 1} of {len(given)} {error}") from None


def _split(text: str) -> tuple[str, str]:
    """Name and address of `Ada <ada@example.com>`; the name is empty where there is only an address."""
    text = text.strip(" ")
    if not text.endswith(">"):
        return "", text
    name, _, address = text[:-1].rpartition("<")
    name = name.strip(" ")
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return re.sub(r"\\(.)", r"\1", name[1:-1]), address
    if any(mark in name for mark in '<>"@,;'):
        raise ValueError("must be a single address; a name with special characters must be in quotes")
    return name, address


def _checked(address: str) -> str:
    local, at, domain = address.rpartition("@")
    if not at or len(local) > MAX_LOCAL_PART_LENGTH or not _LOCAL.fullmatch(local):
        raise ValueError("is not an address such as ada@example.com")
    # Checked before and after the conversion: a domain grows when it is written in ASCII.
    if len(domain) <= MAX_DOMAIN_LENGTH and not domain.isascii():
        domain = _in_ascii(domain)
    if len(domain) > MAX_DOMAIN_LENGTH:
        raise ValueError(f"has a domain of more than {MAX_DOMAIN_LENGTH} characters")
    if domain != "localhost" and not _DOMAIN.fullmatch(domain):
        raise ValueError("has a domain that cannot exist")
    return f"{local}@{domain}"


def _in_ascii(domain: str) -> str:
    try:
        # IDNA 2008: the standard library knows IDNA 2003, which makes another domain of straße.de.
        return idna.encode(domain, uts46=True).decode()
    except UnicodeError:
        raise ValueError("has a domain that cannot exist") from None
