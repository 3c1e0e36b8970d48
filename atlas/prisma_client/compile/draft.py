"""A statement in the making: what it already knows of its parameters and aliases."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from atlas.prisma_client.errors import UnsupportedQuery, unknown_field, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema
from atlas.prisma_client.values import Codec, codec_of, encode, encode_list

# Prisma's engine writes these in camel case, its Python client in snake case; both are understood.
_SNAKE_CASE = {
    "notIn": "not_in",
    "startsWith": "startswith",
    "endsWith": "endswith",
    "hasEvery": "has_every",
    "hasSome": "has_some",
    "isEmpty": "is_empty",
    "isNot": "is_not",
    "orderBy": "order_by",
    "connectOrCreate": "connect_or_create",
    "updateMany": "update_many",
    "deleteMany": "delete_many",
    "createMany": "create_many",
}
# Prisma knows these, wherever they may stand; this client does not.
_UNSUPPORTED = frozenset({"upsert", "create_many", "search"})


class Parameter(NamedTuple):
    """A value of a call that became a parameter, and how."""

    value: Any
    codec: Codec
    label: str
    is_list: bool

    def encode(self, value: Any) -> Any:
        """Another value of the same parameter, as asyncpg sends it."""
        return encode_list(self.codec, value, self.label) if self.is_list else encode(self.codec, value, self.label)


class Draft:
    """Collects parameters in the order of their numbers, and hands out unused aliases.

    `taken` are the values that they were encoded from. `negated` says whether the condition that is being written
    stands inside a NOT, `by_key` whether it asks for the keys of related rows.
    """

    __slots__ = ("_aliases", "by_key", "negated", "parameters", "schema", "taken")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.parameters: list[Any] = []
        self.taken: list[Parameter] = []
        self.negated = False
        self.by_key = False
        self._aliases = 0

    def alias(self) -> str:
        """A fresh name for a table in this statement."""
        self._aliases += 1
        return f"t{self._aliases - 1}"

    @contextmanager
    def inside_relation(self, *, negated: bool) -> Iterator[None]:
        """Conditions on the rows of another model, whose own relations are asked in the ordinary way."""
        outer = self.negated, self.by_key
        self.negated, self.by_key = negated, False
        yield
        self.negated, self.by_key = outer

    def parameter(self, codec: Codec, value: Any, label: str) -> str:
        """One value, as `$1::type`."""
        return self._take(Parameter(value, codec, label, is_list=False), codec.cast)

    def parameter_list(self, codec: Codec, values: Any, label: str) -> str:
        """Many values in one parameter, so that their number does not change the statement."""
        return self._take(Parameter(values, codec, label, is_list=True), codec.list_cast)

    def _take(self, parameter: Parameter, cast: str) -> str:
        self.parameters.append(parameter.encode(parameter.value))
        self.taken.append(parameter)
        return f"${len(self.parameters)}{cast}"

    def field_value(self, field: Field, value: Any) -> str:
        """The value of a whole field: null, a list, or one element."""
        if value is None:
            return "null"
        if field.is_list:
            return self.parameter_list(codec_of(field), value, field.label)
        return self.parameter(codec_of(field), value, field.label)


@dataclass(frozen=True, slots=True)
class Included:
    """A relation that travels as JSON in a column of its own."""

    name: str
    backwards: bool
    within: tuple["Included", ...]


@dataclass(slots=True)
class CompiledQuery:
    """SQL that is ready to run, and what its rows still need afterwards."""

    sql: str
    parameters: list[Any]
    included: tuple[Included, ...] = ()
    backwards: bool = False


def quoted(name: str) -> str:
    """An identifier of the schema as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def column(alias: str, field: Field) -> str:
    """A field's column in the table behind an alias."""
    return f"{alias}.{quoted(field.column)}"


def scalar(model: Model, name: object) -> Field:
    """The column of this name, or a refusal."""
    field = model.fields.get(name) if isinstance(name, str) else None
    if field is None or field.relation is not None or field.is_unsupported:
        raise unknown_field(model.name, name)
    return field


def as_dict(tree: Any, label: str) -> dict[str, Any]:
    """The tree itself, which must be a dict."""
    if not isinstance(tree, dict):
        raise wrong_value(label, "a dict", tree)
    return tree


def named(tree: Any, label: str, allowed: Collection[str]) -> dict[str, Any]:
    """The entries of a dict of operators by their snake-case names, all of them known."""
    entries = {_SNAKE_CASE.get(name, name): value for name, value in as_dict(tree, label).items()}
    for name in entries:
        if name in _UNSUPPORTED:
            raise UnsupportedQuery(f"`{name}` on {label}")
        if name not in allowed:
            raise unknown_field(label, name)
    return entries
