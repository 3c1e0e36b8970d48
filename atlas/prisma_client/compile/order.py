"""Order, and the place of a cursor in it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from atlas.db.schema import qualified
from atlas.prisma_client.compile.draft import Draft, as_dict, column, named, quoted
from atlas.prisma_client.compile.where import join_sql, target_of
from atlas.prisma_client.errors import UnsupportedQuery, unknown_field, wrong_value
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import compare_sql


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of an order. Postgres holds null for the greatest value unless the query says otherwise.

    `expression` gives the key of the row behind an alias; `own` is the model's own field, where it is one; `is_count`
    says that it is a number of related rows, which is never null.
    """

    expression: Callable[[str], str]
    nullable: bool
    descending: bool
    nulls_first: bool
    own: str | None = None
    is_count: bool = False

    def sql(self, alias: str) -> str:
        """The key as `order by` takes it."""
        return f"{self.expression(alias)} {direction_sql(self.descending, self.nulls_first)}"

    def reversed(self) -> "Sort":
        """The same key from the other end."""
        return replace(self, descending=not self.descending, nulls_first=not self.nulls_first)


def direction_sql(descending: bool, nulls_first: bool) -> str:
    """`asc` or `desc`, with the place of nulls where it is not Postgres's own."""
    nulls = "" if nulls_first == descending else f" nulls {'first' if nulls_first else 'last'}"
    return f"{'desc' if descending else 'asc'}{nulls}"


def parse_direction(label: str, direction: Any) -> tuple[bool, bool]:
    """Whether it descends, and whether nulls come first: from `"desc"` or `{"sort": "desc", "nulls": "last"}`."""
    entries = named(direction, label, ("sort", "nulls")) if isinstance(direction, dict) else {"sort": direction}
    sort, nulls = entries.get("sort"), entries.get("nulls")
    if sort not in ("asc", "desc"):
        raise wrong_value(label, "'asc' or 'desc'", sort)
    if nulls not in (None, "first", "last"):
        raise wrong_value(label, "'first' or 'last'", nulls)
    descending = sort == "desc"
    return descending, descending if nulls is None else nulls == "first"


def order_entries(label: str, order: Any) -> list[tuple[str, Any]]:
    """The keys of an order, whether it came as one dict or as a list of them."""
    listed = [] if order is None else order if isinstance(order, list | tuple) else [order]
    return [entry for item in listed for entry in as_dict(item, label).items()]


def parse_order(draft: Draft, model: Model, order: Any, *, stable: bool) -> list[Sort]:
    """The keys of an order; a stable one ends in the row's identity, so that pages neither overlap nor skip."""
    sorts = [_sort(draft, model, name, direction) for name, direction in order_entries(f"{model.name}.order", order)]
    if stable:
        seen = {sort.own for sort in sorts}
        missing = [name for name in model.identity.fields if name not in seen]
        sorts += [_sort(draft, model, name, "asc") for name in missing]
    return sorts


def order_sql(alias: str, sorts: list[Sort]) -> str:
    """The `order by` clause, or nothing."""
    return f" order by {', '.join(sort.sql(alias) for sort in sorts)}" if sorts else ""


def cursor_columns(alias: str, sorts: list[Sort]) -> str:
    """What a cursor's row must tell about its place."""
    return ", ".join(f"{sort.expression(alias)} as {_place(number)}" for number, sort in enumerate(sorts))


def from_cursor_sql(alias: str, cursor: str, sorts: list[Sort]) -> str:
    """True for the cursor's row and every row after it."""
    condition = "true"
    for number, sort in reversed(list(enumerate(sorts))):
        own, place = sort.expression(alias), f"{cursor}.{_place(number)}"
        after = f"{own} {'<' if sort.descending else '>'} {place}"
        same = f"{own} = {place}"
        if sort.nullable:
            # Where nulls come first, every value follows a null; where they come last, null follows every value.
            null, value = (place, own) if sort.nulls_first else (own, place)
            after = f"({after} or ({null} is null and {value} is not null))"
            same = f"{own} is not distinct from {place}"
        condition = f"({after} or ({same} and {condition}))"
    return condition


def _place(number: int) -> str:
    return quoted(f"place{number}")


def _sort(draft: Draft, model: Model, name: str, direction: Any) -> Sort:
    field = model.fields.get(name)
    if name == "_relevance":
        raise UnsupportedQuery(f"ordering by `_relevance` on {model.name}")
    if field is None or field.is_unsupported:
        raise unknown_field(model.name, name)
    if field.relation is not None:
        return _related_sort(draft, model, field, direction)
    descending, nulls_first = parse_direction(field.label, direction)
    return Sort(
        lambda alias: compare_sql(field, column(alias, field)), not field.required, descending, nulls_first, own=name
    )


def _related_sort(draft: Draft, model: Model, field: Field, order_value: Any) -> Sort:
    """By a field of the related row, or by the number of related rows: `{"owner": {"name": "asc"}}`."""
    target, other = target_of(draft.schema, field), draft.alias()
    if field.is_list:
        direction = named(order_value, field.label, ("_count",)).get("_count")
        inner = Sort(lambda _: "count(*)", False, *parse_direction(field.label, direction), is_count=True)
    else:
        entries = order_entries(field.label, order_value)
        if len(entries) != 1:
            raise wrong_value(field.label, "exactly one field to order by", order_value)
        inner = _sort(draft, target, *entries[0])

    def expression(alias: str) -> str:
        joined = join_sql(model, alias, field, target, other)
        subquery = f"(select {inner.expression(other)} from {qualified(target.table)} {other} where {joined})"
        return f"coalesce({subquery}, 0)" if inner.is_count else subquery

    return replace(inner, expression=expression, nullable=not inner.is_count, own=None)
