"""Removes known secret values from texts and JSON values.

It searches for the value itself and for the forms it takes inside other texts: JSON, a URL, base64, a repr, one line of
several. A second search reads the text as if it were not quoted, and finds what shells and other programs quote.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr
from urllib.parse import quote, quote_plus

import orjson

from atlas.engine.secrets.unquoted import MAX_ESCAPE_LENGTH, Unquoted, forms, unquote

# Shorter values occur in harmless texts, and are not secrets.
MIN_SECRET_LENGTH = 4
MIN_LINE_LENGTH = 6
# Without one of these a text quotes nothing.
_QUOTING = re.compile(r"[\\'\"$%]")


class Redactor:
    """Replaces the secrets of one attempt, each by its fingerprint."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets` maps a clear value to its fingerprint."""
        self._replacements: dict[str, str] = {}
        self._unquoted: dict[bytes, str] = {}
        self.learn(secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Add more values, each with what is shown instead."""
        for value, fingerprint in secrets.items():
            for shape in _shapes(value):
                self._replacements.setdefault(shape, f"[secret {fingerprint}]")
            for form in (form for line in (value, *_lines(value)) for form in forms(line)):
                if len(form) >= MIN_SECRET_LENGTH:
                    self._unquoted.setdefault(form, f"[secret {fingerprint}]")
        self._pattern = _any_of(self._replacements, "|")
        self._unquoted_pattern = _any_of(self._unquoted, b"|")
        # How much of a text one of them takes at most, but for endless quotes.
        self._widest = MAX_ESCAPE_LENGTH * (max(map(len, self._unquoted), default=0) + 1)

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._replacements[match[0]], text)
        if self._unquoted_pattern is not None and _QUOTING.search(text):
            text = self._without_quoted(text, self._unquoted_pattern)
        return text

    def cut(self, text: str, *, at_start: bool = False, at_end: bool = False) -> str:
        """Redact a piece of a longer text: the part of a secret that is left at the cut is removed too."""
        text = self.text(text)
        if at_end:
            text = text[: len(text) - max((_overlap(text, shape) for shape in self._replacements), default=0)]
            text = self._without_quoted_end(text)
        if at_start:
            text = text[max((_overlap(shape, text) for shape in self._replacements), default=0) :]
            text = self._without_quoted_start(text)
        return text

    def report(self, text: str) -> str:
        """Redact a sentence about a program, and below it the end of its output: both may have been cut."""
        sentence, newline, printed = self.text(text).partition("\n")
        return "".join(
            (self.cut(sentence, at_start=True, at_end=True), newline, self.cut(printed, at_start=True, at_end=True))
        )

    def value(self, value: Any) -> Any:
        """Return a JSON value without the secrets, in its keys too."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(name)): self.value(item) for name, item in value.items()}
            case list() | tuple():
                return [self.value(item) for item in value]
            case int() | float() if not isinstance(value, bool) and self.text(str(value)) != str(value):
                return self.text(str(value))
            case _:
                return value

    def json(self, text: str) -> str:
        """Return JSON text without the secrets."""
        return orjson.dumps(self.value(orjson.loads(text))).decode()

    def _without_quoted(self, text: str, pattern: re.Pattern[bytes]) -> str:
        if not pattern.search(unquote(text)):
            return text
        bare = Unquoted(text)
        pieces: list[bytes] = []
        at = 0
        for match in pattern.finditer(bare.value):
            start, end = bare.span(*match.span())
            pieces += bare.source[at:start], self._unquoted[match[0]].encode()
            at = end
        return b"".join((*pieces, bare.source[at:])).decode("utf-8", "surrogatepass")

    def _without_quoted_end(self, text: str) -> str:
        before = max(0, len(text) - self._widest)
        bare = Unquoted(text[before:], cut_at_end=True)
        size = max((_overlap(bare.value, form) for form in self._unquoted), default=0)
        if not size:
            return text
        start, _ = bare.span(len(bare.value) - size, len(bare.value))
        return text[:before] + bare.source[:start].decode("utf-8", "surrogatepass")

    def _without_quoted_start(self, text: str) -> str:
        # The first letters may be the rest of an escape whose beginning was cut off.
        for skipped in range(MAX_ESCAPE_LENGTH):
            bare = Unquoted(text[skipped : skipped + self._widest])
            size = max((_overlap(form, bare.value) for form in self._unquoted), default=0)
            if size:
                rest = bare.source[bare.span(0, size)[1] :].decode("utf-8", "surrogatepass")
                return rest + text[skipped + self._widest :]
        return text


def needles(value: Any) -> Iterable[str]:
    """The texts within a secret value that must be redacted."""
    match value:
        case str():
            if len(value) >= MIN_SECRET_LENGTH:
                yield value
        case dict():
            for item in value.values():
                yield from needles(item)
        case list():
            for item in value:
                yield from needles(item)
        case int() | float() if not isinstance(value, bool):
            yield from needles(orjson.dumps(value).decode())


def _shapes(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    shapes = {
        value,
        orjson.dumps(value).decode()[1:-1],
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        ascii(value)[1:-1],
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        raw.hex(),
        raw.hex().upper(),
    }
    if not value.isascii():
        # What is left of it where a program or a decoder does not know the letters, or `cat -v` names their bytes.
        marked = {re.sub(r"[^\0-\x7f]", mark, text) for mark in "?\ufffd" for text in (value, raw.decode("latin-1"))}
        shapes |= {shape for shape in marked if sum(map(str.isalnum, shape)) >= MIN_SECRET_LENGTH}
        shapes.add("".join(map(_caret, raw)))
    for offset in range(3):
        inside = _inside_base64(raw, offset)
        shapes |= {inside, inside.replace("+", "-").replace("/", "_")}
    shapes |= _lines(value)
    # A shape inside another text, such as a repr inside JSON, is escaped once more.
    shapes |= {escaped[1:-1] for shape in list(shapes) for escaped in (orjson.dumps(shape).decode(), json.dumps(shape))}
    return {shape for shape in shapes if len(shape) >= MIN_SECRET_LENGTH}


def _caret(byte: int) -> str:
    """A byte as `cat -v` shows it."""
    low = byte & 0x7F
    character = chr(low) if 32 <= low < 127 or byte in b"\t\n" else f"^{chr(low ^ 64)}"
    return character if byte < 128 else f"M-{character}"


def _lines(value: str) -> set[str]:
    return {line for line in value.splitlines() if len(line) >= MIN_LINE_LENGTH}


def _any_of(values: Iterable[AnyStr], bar: AnyStr) -> re.Pattern[AnyStr] | None:
    """A pattern that finds any of these values, and the longest where several begin at one place."""
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile(bar.join(map(re.escape, longest_first))) if longest_first else None


def _inside_base64(raw: bytes, offset: int) -> str:
    """The base64 letters of these bytes within a longer text, `offset` bytes into a group of three."""
    encoded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
    shared = 1 if (offset + len(raw)) % 3 else 0
    return encoded[(0, 2, 3)[offset] : len(encoded) - shared]


def _overlap(left: AnyStr, right: AnyStr) -> int:
    """How much of the end of `left` is the beginning of `right`; fewer than MIN_SECRET_LENGTH letters count as none."""
    probe = right[:16]
    at = left.find(probe, max(0, len(left) - len(right)))
    while at >= 0:
        if right.startswith(left[at:]):
            return len(left) - at
        at = left.find(probe, at + 1)
    sizes = range(min(len(left), len(probe)), MIN_SECRET_LENGTH - 1, -1)
    return next((size for size in sizes if left.endswith(right[:size])), 0)
