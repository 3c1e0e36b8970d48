"""Renders a mail as RFC 5322 text. Written by hand: the standard library takes ten times as long as a whole job.

Lines end in CRLF and are short; what is not plain ASCII is base64. A mail has at most four layers of parts: the text
in one or two forms, and files beside it.
"""

import base64
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from email.header import Header
from email.utils import formatdate
from functools import lru_cache

from atlas.workers.email.addresses import Address, quoted
from atlas.workers.email.message import Attachment, EmailInput

MAX_LINE_LENGTH = 76
# Lines of ASCII, none near the 998 characters that RFC 5322 allows.
_PLAIN_TEXT = re.compile(r"[\t\x20-\x7e]{0,900}(?:\n[\t\x20-\x7e]{0,900})*")
# File names with other characters are written as RFC 2231 says.
_PLAIN_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 !#$&+-.^_`{}~()[]@=,;'")


def render(
    mail: EmailInput, *, sender: Address, message_id: str, headers: dict[str, str], names_bcc: bool = True
) -> bytes:
    """The whole mail. `names_bcc` is for a text that is stored: one for a mail server does not name blind copies."""
    header = (
        f"Message-ID: <{message_id}>\r\nDate: {_date(int(time.time()))}\r\n"
        f"From: {_address(sender)}\r\nTo: {_addresses(mail.to)}\r\n"
    )
    for name, addresses in (("Cc", mail.cc), ("Bcc", mail.bcc if names_bcc else ()), ("Reply-To", mail.reply_to)):
        if addresses:
            header += f"{name}: {_addresses(addresses)}\r\n"
    header += f"Subject: {_text('Subject', mail.subject)}\r\n"
    for name, value in headers.items():
        header += f"{name}: {_text(name, value)}\r\n"
    return f"{header}MIME-Version: 1.0\r\n{_body(mail)}".encode("ascii")


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second)


def _body(mail: EmailInput) -> str:
    if mail.text and mail.html:
        body = _parts("alternative", [_text_part("plain", mail.text), _text_part("html", mail.html)])
    else:
        body = _text_part("plain", mail.text) if mail.text else _text_part("html", mail.html or "")
    if mail.attachments:
        body = _parts("mixed", [body, *(_file(attachment) for attachment in mail.attachments)])
    return body


def _parts(kind: str, parts: Iterable[str]) -> str:
    boundary = f"=_{secrets.token_hex(16)}"
    inner = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n\r\n{inner}--{boundary}--\r\n'


def _text_part(form: str, text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _PLAIN_TEXT.fullmatch(text):
        lines = text.replace("\n", "\r\n")
        return f"Content-Type: text/{form}; charset=us-ascii\r\n\r\n{lines}"
    return (
        f"Content-Type: text/{form}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        f"{_base64_lines(base64.b64encode(text.encode()).decode())}"
    )


def _file(attachment: Attachment) -> str:
    return (
        f"Content-Type: {attachment.content_type}\r\n"
        "Content-Transfer-Encoding: base64\r\n"
        f"Content-Disposition: attachment;\r\n {_file_name(attachment.name)}\r\n\r\n"
        f"{_base64_lines(attachment.base64)}"
    )


def _file_name(name: str) -> str:
    if len(name) <= 60 and _PLAIN_NAME.issuperset(name):
        return f'filename="{name}"'
    # RFC 2231: long values continue in numbered pieces, each on a line of its own.
    raw = name.encode()
    pieces = [_percent(raw[start : start + 20]) for start in range(0, len(raw), 20)]
    pieces[0] = f"utf-8''{pieces[0]}"
    return ";\r\n ".join(f"filename*{number}*={piece}" for number, piece in enumerate(pieces))


def _percent(raw: bytes) -> str:
    return "".join(chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"%{byte:02X}" for byte in raw)


def _base64_lines(encoded: str) -> str:
    return "\r\n".join(encoded[start : start + MAX_LINE_LENGTH] for start in range(0, len(encoded), MAX_LINE_LENGTH))


def _addresses(addresses: Sequence[Address]) -> str:
    return _address(addresses[0]) if len(addresses) == 1 else ",\r\n ".join(map(_address, addresses))


def _address(address: Address) -> str:
    name = address.name
    if not name:
        return address.address
    if name.isascii() and len(name) <= MAX_LINE_LENGTH and "=?" not in name:
        return f"{quoted(name)} <{address.address}>"
    return f"{_encoded(name)}\r\n <{address.address}>"


def _text(name: str, value: str) -> str:
    # A text that looks like an encoded word is encoded, so that readers show it as it was given.
    if value.isascii() and len(name) + len(value) + 2 <= MAX_LINE_LENGTH and "=?" not in value:
        return value
    return _encoded(value, name)


def _encoded(value: str, header: str = "") -> str:
    return Header(value, "utf-8", maxlinelen=MAX_LINE_LENGTH, header_name=header).encode(linesep="\r\n")
