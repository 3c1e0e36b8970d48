"""SQL that was composed before is used again: calls of one shape differ in the values of their parameters alone.

A shape is everything of a page's arguments but those values. That a value is nothing but a parameter is not assumed:
the SQL of a shape is kept if composing it took every value, as it stands and in order, as a parameter. So filters that
change a value (`contains`), or look at it (`mode`), are composed each time.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from atlas.prisma_client.compile.draft import CompiledQuery, Draft, Included, Parameter
from atlas.prisma_client.schema import Schema

# Applications may filter in endless ways; a few are everyday ones.
MAX_SHAPES = 1000
_VALUES = (str, int, float, bool, datetime, Decimal, UUID, list, tuple)
# These change a statement by more than a value, and are rare.
_COMPOSED = ("cursor", "distinct")


@dataclass(frozen=True, slots=True)
class ComposedPage:
    """The SQL of a shape, and what its values become."""

    sql: str
    parameters: list[Parameter]
    included: tuple[Included, ...]
    backwards: bool

    def statement(self, values: list[Any]) -> CompiledQuery:
        """The statement for these values."""
        encoded = [parameter.encode(value) for parameter, value in zip(self.parameters, values, strict=True)]
        return CompiledQuery(self.sql, encoded, self.included, self.backwards)


class _NoShape(Exception):
    """A call that is composed each time."""


# By shape; None where values are more than parameters.
_composed_pages: dict[Hashable, ComposedPage | None] = {}


def compose_once(
    schema: Schema, of: Hashable, arguments: Mapping[str, Any], compose: Callable[[Draft], CompiledQuery]
) -> CompiledQuery:
    """The statement for a page `of` something: composed, unless one of the same shape was composed before."""
    values: list[Any] = []
    draft = Draft(schema)
    try:
        shape = (of, *_shape_of_page(arguments, values))
        composed = _composed_pages.get(shape)
    except (_NoShape, TypeError):  # a wrong argument may have no hash; composing it says what is wrong
        return compose(draft)
    if composed is not None:
        return composed.statement(values)
    statement = compose(draft)
    if shape not in _composed_pages and len(_composed_pages) < MAX_SHAPES and _are_distinct(values):
        _composed_pages[shape] = _composed(statement, draft, values)
    return statement


def _composed(statement: CompiledQuery, draft: Draft, values: list[Any]) -> ComposedPage | None:
    taken = draft.taken
    if len(taken) != len(values) or any(
        taken_value.value is not value for taken_value, value in zip(taken, values, strict=True)
    ):
        return None
    parameters = [part._replace(value=None) for part in taken]
    return ComposedPage(statement.sql, parameters, statement.included, statement.backwards)


def _are_distinct(values: list[Any]) -> bool:
    """Whether each is an object of its own; only then is it certain which of them became which parameter."""
    return len({id(value) for value in values}) == len(values)


def _shape_of_page(arguments: Mapping[str, Any], values: list[Any]) -> tuple[Any, ...]:
    """The shape of a page's arguments. Its values are added to `values`, in the order in which SQL is composed."""
    for name in _COMPOSED:
        if arguments.get(name) is not None:
            raise _NoShape
    where = _shape(arguments.get("where"), values)
    take = _shape_of_number(arguments.get("take"), values)
    skip = _shape_of_number(arguments.get("skip"), values)
    return where, take, skip, _by_value(arguments.get("order_by")), _shape_of_include(arguments.get("include"))


def _shape(tree: Any, values: list[Any]) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return tuple([(name, _shape(value, values)) for name, value in tree.items()])
    if isinstance(tree, list | tuple) and tree and isinstance(tree[0], dict):
        return (list, *[_shape(item, values) for item in tree])
    if not isinstance(tree, _VALUES):
        raise _NoShape
    values.append(tree)
    return type(tree)


def _shape_of_number(number: Any, values: list[Any]) -> Any:
    if number is None:
        return None
    if type(number) is not int or number <= 0:
        return type(number), number
    values.append(number)
    return int


def _shape_of_include(include: Any) -> Any:
    if include is None:
        return None
    if not isinstance(include, dict):
        raise _NoShape
    return tuple([(name, _shape_of_relation(value)) for name, value in include.items()])


def _shape_of_relation(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict) or not value.keys() <= {"order_by", "include"}:
        raise _NoShape
    return _by_value(value.get("order_by")), _shape_of_include(value.get("include"))


def _by_value(tree: Any) -> Any:
    if isinstance(tree, dict):
        return tuple([(name, _by_value(value)) for name, value in tree.items()])
    return (list, *map(_by_value, tree)) if isinstance(tree, list | tuple) else tree
