"""Reads a schema.prisma. Each model is read when it is first used: a command uses one or two.

`load_schema` reads a file; `packaged_schema` is the copy that stands with the generated client, so that the two can
never speak of different tables.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from atlas.generated.client import PACKAGED_SCHEMA_PATH
from atlas.prisma_client.schema import Default, Enum, Field, Model, Relation, Schema, UniqueKey
from atlas.prisma_client.schema_text import (
    WITH_FIELDS,
    Attribute,
    Block,
    SchemaLine,
    block_texts,
    items,
    read_block,
    unquote,
)


@cache
def packaged_schema() -> Schema:
    """The schema the generated client was made from, read once."""
    return load_schema(PACKAGED_SCHEMA_PATH)


def load_schema(path: Path) -> Schema:
    """Read a schema.prisma."""
    return parse_schema(path.read_text(encoding="utf-8"))


def parse_schema(text: str) -> Schema:
    """Read the text of a schema.prisma."""
    texts = [*block_texts(text)]
    enums = {name: _enum(read_block(kind, name, body)) for kind, name, body in texts if kind == "enum"}
    return Schema(_Models({name: (kind, body) for kind, name, body in texts if kind in WITH_FIELDS}, enums), enums)


class _Models(Mapping[str, Model]):
    """The models by name, read on demand."""

    def __init__(self, texts: dict[str, tuple[str, str]], enums: dict[str, Enum]) -> None:
        self._texts = texts
        self._enums = enums
        self._blocks: dict[str, Block] = {}
        self._models: dict[str, Model] = {}
        for name in [name for name, (_, body) in texts.items() if "@@ignore" in body]:
            if self.block(name).attribute("ignore") is not None:
                del texts[name]

    def __getitem__(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = _model(self.block(name), self, self._enums)
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def block(self, name: str) -> Block:
        """The lines of a model."""
        block = self._blocks.get(name)
        if block is None:
            kind, body = self._texts[name]
            block = self._blocks[name] = read_block(kind, name, body)
        return block


def _enum(block: Block) -> Enum:
    labels = {line.name: _mapped(line.attribute("map"), line.name) for line in block.lines}
    return Enum(block.name, _mapped(block.attribute("map"), block.name), labels)


def _model(block: Block, models: _Models, enums: dict[str, Enum]) -> Model:
    lines = [line for line in block.lines if line.attribute("ignore") is None]
    fields = {line.name: _field(block, line, models, enums) for line in lines}
    scalars = tuple(field for field in fields.values() if field.relation is None and not field.is_unsupported)
    # The primary key first, then those that no null can hide from.
    optional = {name for name, field in fields.items() if not field.required}
    keys = sorted(
        _keys(block), key=lambda attribute: (not attribute[0], bool(optional.intersection(attribute[1].fields)))
    )
    table = _mapped(block.attribute("map"), block.name)
    return Model(block.name, table, fields, tuple(key for _, key in keys), scalars, block.kind == "view")


def _keys(block: Block) -> Iterator[tuple[bool, UniqueKey]]:
    """Every unique key, and whether it is the primary one."""
    for line in block.lines:
        if line.attribute("id") or line.attribute("unique"):
            yield line.attribute("id") is not None, UniqueKey(line.name, (line.name,))
    for attribute in block.attributes:
        if attribute.name in ("id", "unique"):
            listed = items(attribute.argument("fields") or "[]")
            names = tuple(item.partition("(")[0] for item in listed)
            name = unquote(attribute.named["name"]) if "name" in attribute.named else "_".join(names)
            yield attribute.name == "id", UniqueKey(name, names)


def _field(block: Block, line: SchemaLine, models: _Models, enums: dict[str, Enum]) -> Field:
    native = next((attribute for attribute in line.attributes if attribute.name.startswith("db.")), None)
    default = line.attribute("default")
    return Field(
        label=f"{block.name}.{line.name}",
        name=line.name,
        column=_mapped(line.attribute("map"), line.name),
        type=line.type,
        native=_native(native) if native else None,
        is_list=line.suffix == "[]",
        required=line.suffix != "?",
        default=_default(default.argument("value") or "") if default else None,
        updated_at=line.attribute("updatedAt") is not None,
        enum=enums.get(line.type),
        relation=_relation(block, line, models) if line.type in models else None,
    )


def _native(attribute: Attribute) -> str:
    name = attribute.name.removeprefix("db.")
    return f"{name}({','.join(attribute.arguments)})" if attribute.arguments else name


def _default(text: str) -> Default:
    if text.startswith('"'):
        return Default(None, unquote(text))
    function, bracket, rest = text.partition("(")
    if not bracket or text.startswith("["):
        return Default(None, text)
    argument = rest.removesuffix(")").strip()
    return Default(function, unquote(argument) if argument.startswith('"') else argument)


def _relation(block: Block, line: SchemaLine, models: _Models) -> Relation:
    held = _held_key(line)
    if held is not None:
        return Relation(line.type, *held, holds_key=True)
    for other in models.block(line.type).lines:
        is_partner = other.type == block.name and _relation_name(other) == _relation_name(line)
        if is_partner and (key := _held_key(other)) is not None:
            return Relation(line.type, key[1], key[0], holds_key=False)
    return Relation(line.type, (), (), holds_key=False)


def _held_key(line: SchemaLine) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The fields and references of a relation, on the side that stores the key."""
    attribute = line.attribute("relation")
    if attribute is None or "fields" not in attribute.named:
        return None
    return tuple(items(attribute.named["fields"])), tuple(items(attribute.named["references"]))


def _relation_name(line: SchemaLine) -> str | None:
    attribute = line.attribute("relation")
    return attribute.argument("name") if attribute else None


def _mapped(attribute: Attribute | None, name: str) -> str:
    text = attribute.argument("name") if attribute else None
    return unquote(text) if text else name
