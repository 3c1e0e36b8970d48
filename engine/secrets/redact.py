"""Removes known secret values from texts and JSON values.

It searches for the value itself and for the forms it takes inside other texts: JSON, a URL, base64, a repr, one line of
several.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

# Shorter values occur in harmless texts, and are not secrets.
SHORTEST_SECRET = 4
SHORTEST_LINE = 6


class Redactor:
    """Replaces the secrets of one attempt, each by its fingerprint."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets` maps a clear value to its fingerprint."""
        self._shown: dict[str, str] = {}
        self.learn(secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Add more values, each with what is shown instead."""
        for value, fingerprint in secrets.items():
            for shape in _shapes(value):
                self._shown.setdefault(shape, f"[secret {fingerprint}]")
        longest_first = sorted(self._shown, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._shown[match[0]], text)

    def cut(self, text: str, *, at_start: bool = False, at_end: bool = False) -> str:
        """Redact a piece of a longer text: the part of a secret that is left at the cut is removed too."""
        text = self.text(text)
        if at_end:
            text = text[: len(text) - max((_overlap(text, shape) for shape in self._shown), default=0)]
        if at_start:
            text = text[max((_overlap(shape, text) for shape in self._shown), default=0) :]
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


def needles(value: Any) -> Iterable[str]:
    """The texts within a secret value that must be redacted."""
    match value:
        case str():
            if len(value) >= SHORTEST_SECRET:
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
    found = {
        value,
        orjson.dumps(value).decode()[1:-1],
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        ascii(value)[1:-1],
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        raw.hex(),
    }
    for offset in range(3):
        inside = _inside_base64(raw, offset)
        found |= {inside, inside.replace("+", "-").replace("/", "_")}
    found |= {line for line in value.splitlines() if len(line) >= SHORTEST_LINE}
    # A shape inside another text, such as a repr inside JSON, is escaped once more.
    found |= {escaped[1:-1] for shape in list(found) for escaped in (orjson.dumps(shape).decode(), json.dumps(shape))}
    return {shape for shape in found if len(shape) >= SHORTEST_SECRET}


def _inside_base64(raw: bytes, offset: int) -> str:
    """The base64 letters of these bytes within a longer text, `offset` bytes into a group of three."""
    encoded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
    shared = 1 if (offset + len(raw)) % 3 else 0
    return encoded[(0, 2, 3)[offset] : len(encoded) - shared]


def _overlap(left: str, right: str) -> int:
    """How much of the end of `left` is the beginning of `right`; fewer than SHORTEST_SECRET letters count as none."""
    probe = right[:16]
    at = left.find(probe, max(0, len(left) - len(right)))
    while at >= 0:
        if right.startswith(left[at:]):
            return len(left) - at
        at = left.find(probe, at + 1)
    sizes = range(min(len(left), len(probe)), SHORTEST_SECRET - 1, -1)
    return next((size for size in sizes if left.endswith(right[:size])), 0)
