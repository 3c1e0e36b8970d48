"""The grammar of a .prisma file: text in, blocks of named lines with their attributes out."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKENS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*") | (?P<comment>//[^\n]*) | (?P<newline>\n)
      | (?P<open>[(\[]) | (?P<close>[)\]]) | (?P<other>[^"/\n()\[\]]+|.)""",
    re.VERBOSE,
)
# What has fields: tables and views.
WITH_FIELDS = ("model", "view")

# A block that begins and ends at the beginning of a line.
_BLOCK = re.compile(r"^(\w+)[ \t]+(\w+)[ \t]*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'(\w+)\s+(Unsupported\("[^"]*"\)|\w+)(\?|\[\])?\s*(.*)')
_ATTRIBUTE = re.compile(r"@@?([\w.]+)")
_NAMED = re.compile(r"(\w+)\s*:\s*(.*)", re.DOTALL)


class Attribute(NamedTuple):
    """`@map("x")`, `@@id([a, b], name: "n")`: a name, and its arguments still as text."""

    name: str
    arguments: tuple[str, ...]
    named: dict[str, str]

    def argument(self, name: str) -> str | None:
        """The argument of this name, or the first one without a name."""
        return self.named.get(name) or (self.arguments[0] if self.arguments else None)


class SchemaLine(NamedTuple):
    """A field of a model, or a value of an enum (which has no type)."""

    name: str
    type: str = ""
    suffix: str = ""
    attributes: tuple[Attribute, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, if the line has it."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


class Block(NamedTuple):
    """`model Job { … }`, or a view or an enum: its lines, and the `@@` attributes that speak of the whole."""

    kind: str
    name: str
    lines: tuple[SchemaLine, ...]
    attributes: tuple[Attribute, ...]

    def attribute(self, name: str) -> Attribute | None:
        """The first `@@` attribute of this name, if the block has one."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


def block_texts(text: str) -> Iterator[tuple[str, str, str]]:
    """The models, views and enums of a schema, in its order: the kind, the name, and the text within the braces."""
    for kind, name, body in _BLOCK.findall(text):
        if kind in (*WITH_FIELDS, "enum"):
            yield kind, name, body


def read_block(kind: str, name: str, text: str) -> Block:
    """Read the text within the braces of a block."""
    body = [*_whole_lines(text)]
    whole = [line for line in body if line.startswith("@@")]
    lines = [_field(line) if kind in WITH_FIELDS else _value(line) for line in body if not line.startswith("@@")]
    attributes = [attribute for line in whole for attribute in _attributes(line)]
    return Block(kind, name, tuple(lines), tuple(attributes))


def items(text: str) -> list[str]:
    """The elements of `[a, b(sort: Desc)]`, as text."""
    return _split(text.strip()[1:-1])


def unquote(text: str) -> str:
    """The string a literal stands for."""
    return str(json.loads(text))


def _whole_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends inside brackets goes on in the next."""
    line, depth = "", 0
    for token in _TOKENS.finditer(text + "\n"):
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind == "comment":
            continue
        if kind != "newline":
            line += token[0]
        elif depth == 0:
            if line.strip():
                yield line.strip()
            line = ""


def _field(line: str) -> SchemaLine:
    match = _FIELD.fullmatch(line)
    if match is None:
        raise ValueError(f"schema.prisma has a line that is not a field: {line}")
    return SchemaLine(match[1], match[2], match[3] or "", tuple(_attributes(match[4])))


def _value(line: str) -> SchemaLine:
    name, _, rest = line.partition(" ")
    return SchemaLine(name, attributes=tuple(_attributes(rest)))


def _attributes(text: str) -> Iterator[Attribute]:
    position = 0
    while match := _ATTRIBUTE.search(text, position):
        position = match.end()
        inner = ""
        if text[position : position + 1] == "(":
            inner = text[position + 1 : (position := _closing(text, position))]
        yield _attribute(match[1], inner)


def _attribute(name: str, inner: str) -> Attribute:
    arguments: list[str] = []
    named: dict[str, str] = {}
    for part in _split(inner):
        if match := _NAMED.fullmatch(part):
            named[match[1]] = match[2]
        else:
            arguments.append(part)
    return Attribute(name, tuple(arguments), named)


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed."""
    depth = 0
    for token in _TOKENS.finditer(text, start):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth == 0:
            return token.start()
    raise ValueError(f"schema.prisma leaves a bracket open: {text}")


def _split(text: str) -> list[str]:
    """The parts between the commas that stand outside strings and brackets."""
    parts, part, depth = [], "", 0
    for token in _TOKENS.finditer(text):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup != "other" or depth > 0:
            part += token[0]
            continue
        first, *more = token[0].split(",")
        part += first
        for piece in more:
            parts.append(part)
            part = piece
    return [piece for piece in (part.strip() for part in [*parts, part]) if piece]
