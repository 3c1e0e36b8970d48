"""Reads a text as if nothing in it were quoted, and knows where each byte of that came from.

Shells, `ls`, C and Python write one value in many ways: `'caf'$'\\303\\251'`, `caf\\xc3\\xa9`, `it'\\''s`. A list of
them has no end. So escapes are decoded, and quotes, dollars and other backslashes are left out, of the text and of the
value that is searched for. Where the two then agree, the text holds the value, however it is quoted.
"""

import re
from bisect import bisect_right

# A backslash may itself be escaped, any number of times.
_ESCAPE = (
    rb"\\+(?:(?P<octal>[0-3][0-7]{2})|x(?P<hex>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})"
    rb"|(?P<letter>[abeEfnrtv]))?|%(?P<percent>[0-9a-fA-F]{2})"
)
_ESCAPES = re.compile(_ESCAPE)
_QUOTING = re.compile(_ESCAPE + rb"|['\"$]+")
_LEFT_OUT = b"\\'\"$"
# The beginning of an escape whose rest was cut off.
_HALF = re.compile(rb"(?:\\(?:[0-3][0-7]?|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?|%[0-9a-fA-F]?)\Z")
MAX_ESCAPE_LENGTH = 10
_LETTERS = dict(zip(b"abeEfnrtv", b"\a\b\x1b\x1b\f\n\r\t\v", strict=True))


class Unquoted:
    """The bytes of a text without quoting: `value`. `source` has the text's own bytes."""

    def __init__(self, text: str, *, cut_at_end: bool = False) -> None:
        self.source = text.encode("utf-8", "surrogatepass")
        self.value = b""
        # Pieces: where each begins in `value`, and its range in `source`.
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int]] = []
        half = _HALF.search(self.source) if cut_at_end else None
        end = len(self.source) if half is None else half.start()
        at = 0
        pieces: list[bytes] = []
        for match in _QUOTING.finditer(self.source, 0, end):
            self._add(pieces, self.source[at : match.start()], at, match.start())
            self._add(pieces, _decoded(match).translate(None, _LEFT_OUT), *match.span())
            at = match.end()
        self._add(pieces, self.source[at:end], at, end)
        self.value = b"".join(pieces)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The range in `source` that the bytes from `start` to `end` of `value` come from."""
        return self._source(start)[0], self._source(end - 1)[1]

    def _source(self, position: int) -> tuple[int, int]:
        nth = bisect_right(self._starts, position) - 1
        first, last = self._ranges[nth]
        size = (self._starts[nth + 1] if nth + 1 < len(self._starts) else len(self.value)) - self._starts[nth]
        if size != last - first:
            return first, last
        # Not quoted: byte for byte.
        first += position - self._starts[nth]
        return first, first + 1

    def _add(self, pieces: list[bytes], value: bytes, first: int, last: int) -> None:
        if value:
            self._starts.append(self._starts[-1] + len(pieces[-1]) if pieces else 0)
            self._ranges.append((first, last))
            pieces.append(value)


def unquote(text: str) -> bytes:
    """The `value` of an Unquoted, sooner."""
    return _ESCAPES.sub(_decoded, text.encode("utf-8", "surrogatepass")).translate(None, _LEFT_OUT)


def forms(value: str) -> set[bytes]:
    """What unquoting makes of a value that a text quotes: with the value's own escapes decoded, or as they are."""
    return {unquote(value), value.encode("utf-8", "surrogatepass").translate(None, _LEFT_OUT)}


def _decoded(match: re.Match[bytes]) -> bytes:
    name, digits = match.lastgroup, match[match.lastgroup] if match.lastgroup else b""
    match name:
        case "octal":
            return bytes([int(digits, 8)])
        case "hex" | "percent":
            return bytes([int(digits, 16)])
        case "u4" | "u8" if int(digits, 16) < 0x110000:
            return chr(int(digits, 16)).encode("utf-8", "surrogatepass")
        case "letter":
            return bytes([_LETTERS[digits[0]]])
        case _:
            return b""
