"""The data model as schema.prisma draws it: models and columns, keys, enums and relations.

`load_schema` reads a file; `packaged_schema` is the copy that stands with the generated client, so that
the two can never speak of different tables. Every identifier that reaches SQL comes from here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from atlas.generated.client import PACKAGED_SCHEMA_PATH
from atlas.prisma_client.schema_text import WITH_FIELDS, Attribute, Block, SchemaLine, items, read_blocks, unquote

# Postgres's own short names (udt_name in information_schema) for Prisma's types and for `@db.` types.
SCALARS = {
    "String": "text",
    "Boolean": "bool",
    "Int": "int4",
    "BigInt": "int8",
    "Float": "float8",
    "Decimal": "numeric",
    "DateTime": "timestamp",
    "Json": "jsonb",
    "Bytes": "bytea",
}
NATIVES = {
    "VarChar": "varchar",
    "Char": "bpchar",
    "Integer": "int4",
    "SmallInt": "int2",
    "Boolean": "bool",
    "DoublePrecision": "float8",
    "Real": "float4",
    "Decimal": "numeric",
}


@dataclass(frozen=True, slots=True, eq=False)
class Enum:
    """A type with a fixed set of values: Prisma's names for them, and the database's labels."""

    name: str
    type_name: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Default:
    """What `@default` says: a function with its argument (`dbgenerated("x")`), or a value as it is written."""

    function: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Relation:
    """Which fields of this model meet which fields of the target; both empty where a hidden table joins them."""

    target: str
    own: tuple[str, ...]
    theirs: tuple[str, ...]
    holds_key: bool


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One line of a model. `type` is Prisma's word for it, `native` what `@db.` adds, such as `Timestamptz(6)`.

    `label` is how messages name it: `Job.priority`.
    """

    label: str
    name: str
    column: str
    type: str
    native: str | None
    is_list: bool
    required: bool
    default: Default | None
    updated_at: bool
    enum: Enum | None
    relation: Relation | None

    @property
    def is_unsupported(self) -> bool:
        """True for a column of a type Prisma cannot say; the client does not see it."""
        return self.type.startswith("Unsupported(")

    @property
    def pg_type(self) -> str:
        """Postgres's short name of the element type: `uuid`, `timestamptz`, `job_status`; empty for a relation."""
        if self.relation is not None:
            return ""
        if self.enum is not None:
            return self.enum.type_name
        if self.is_unsupported:
            return unquote(self.type.removeprefix("Unsupported(").removesuffix(")"))
        native = (self.native or "").partition("(")[0]
        return NATIVES.get(native, native.lower()) or SCALARS[self.type]

    @property
    def modifier(self) -> str:
        """The length or precision in brackets, `(6)`, or nothing. Prisma's bare DateTime has three digits."""
        if self.native is None:
            return "(3)" if self.type == "DateTime" else ""
        return self.native[self.native.index("(") :] if "(" in self.native else ""


@dataclass(frozen=True, slots=True, eq=False)
class UniqueKey:
    """Fields whose values belong to one row at most, under the name that `where` gives them."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A table, or a view, which is only read. The first of its keys is the row's identity."""

    name: str
    table: str
    fields: dict[str, Field]
    keys: tuple[UniqueKey, ...]
    scalars: tuple[Field, ...]
    is_view: bool

    @property
    def identity(self) -> UniqueKey:
        """The key by which a row just written is found again, and by which pages are made stable."""
        return self.keys[0]


@dataclass(frozen=True, slots=True)
class Schema:
    """All models and enums by name."""

    models: dict[str, Model]
    enums: dict[str, Enum]


@cache
def packaged_schema() -> Schema:
    """The schema the generated client was made from, read once."""
    return load_schema(PACKAGED_SCHEMA_PATH)


def load_schema(path: Path) -> Schema:
    """Read a schema.prisma."""
    return parse_schema(path.read_text(encoding="utf-8"))


def parse_schema(text: str) -> Schema:
    """Read the text of a schema.prisma."""
    blocks = [block for block in read_blocks(text) if block.attribute("ignore") is None]
    enums = {block.name: _enum(block) for block in blocks if block.kind == "enum"}
    models = {block.name: block for block in blocks if block.kind in WITH_FIELDS}
    return Schema({name: _model(block, models, enums) for name, block in models.items()}, enums)


def _enum(block: Block) -> Enum:
    labels = {line.name: _mapped(line.attribute("map"), line.name) for line in block.lines}
    return Enum(block.name, _mapped(block.attribute("map"), block.name), labels)


def _model(block: Block, models: dict[str, Block], enums: dict[str, Enum]) -> Model:
    lines = [line for line in block.lines if line.attribute("ignore") is None]
    fields = {line.name: _field(block, line, models, enums) for line in lines}
    scalars = tuple(field for field in fields.values() if field.relation is None and not field.is_unsupported)
    # The primary key first, then those that no null can hide from.
    optional = {name for name, field in fields.items() if not field.required}
    keys = sorted(_keys(block), key=lambda found: (not found[0], bool(optional.intersection(found[1].fields))))
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


def _field(block: Block, line: SchemaLine, models: dict[str, Block], enums: dict[str, Enum]) -> Field:
    native = next((found for found in line.attributes if found.name.startswith("db.")), None)
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


def _relation(block: Block, line: SchemaLine, models: dict[str, Block]) -> Relation:
    held = _held_key(line)
    if held is not None:
        return Relation(line.type, *held, holds_key=True)
    for other in models[line.type].lines:
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
