"""Requests to time stamp authorities and their responses (RFC 3161).

A response is kept as it came, for `openssl ts -verify`. Here only what shows a wrong response is checked: that it was
granted, and that it is of this note and this request.
"""

import hashlib
import secrets
from dataclasses import dataclass

# The identifier of SHA-256, with its parameters, in DER.
_SHA256 = bytes.fromhex("300d06096086480165030402010500")
_GRANTED = (0, 1)


class BadTimestamp(ValueError):
    """The response is not a time stamp of what was sent."""


@dataclass(frozen=True, slots=True)
class Imprint:
    """What a token must hold: the digest of the note, and the request's own number, each in DER."""

    digest: bytes
    nonce: bytes


def timestamp_request(content: bytes) -> tuple[bytes, Imprint]:
    """A request for a time stamp of this content, and what its response must hold."""
    digest = _der(0x30, _SHA256 + _der(0x04, hashlib.sha256(content).digest()))
    # Positive: its first bit is not set.
    nonce = _der(0x02, bytes([1 + secrets.randbelow(0x7F)]) + secrets.token_bytes(7))
    version, wants_certificate = _der(0x02, b"\x01"), _der(0x01, b"\xff")
    return _der(0x30, version + digest + nonce + wants_certificate), Imprint(digest, nonce)


def accepted_token(response: bytes, imprint: Imprint) -> bytes:
    """The response, if it grants a time stamp of this request."""
    tag, body, rest = _read(response)
    if tag != 0x30 or rest:
        raise BadTimestamp("the response is not a time stamp response")
    _, info, token = _read(body)
    _, status, _ = _read(info)
    if int.from_bytes(status, "big") not in _GRANTED:
        raise BadTimestamp(f"it was refused with status {int.from_bytes(status, 'big')}")
    if imprint.digest not in token or imprint.nonce not in token:
        raise BadTimestamp("the time stamp is of another content or request")
    return response


def _der(tag: int, content: bytes) -> bytes:
    """An element of DER of fewer than 128 bytes."""
    return bytes([tag, len(content)]) + content


def _read(data: bytes) -> tuple[int, bytes, bytes]:
    """The tag and the content of the first element, and what comes after it."""
    if len(data) < 2:
        raise BadTimestamp("the response is cut off")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise BadTimestamp("the response is cut off")
    return data[0], data[start : start + length], data[start + length :]
