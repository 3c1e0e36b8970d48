"""The data model as schema.prisma draws it: models and columns, keys, enums and relations.

Every identifier that reaches SQL comes from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from atlas.prisma_client.schema_text import unquote

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


class Default(NamedTuple):
    """What `@default` says: a function with its argument (`dbgenerated("x")`), or a value as it is written."""

    function: str | None
    text: str


class Relation(NamedTuple):
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


class UniqueKey(NamedTuple):
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


class Schema(NamedTuple):
    """All models and enums by name."""

    models: Mapping[str, Model]
    enums: dict[str, Enum]
