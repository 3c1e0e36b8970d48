"""Order, and the place of a cursor in it."""

from dataclasses import dataclass, replace
from typing import Any

from atlas.prisma_client.compile.draft import as_dict, column, named, quoted
from atlas.prisma_client.errors import UnsupportedQuery, unknown_field, wrong_value
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import compare_sql


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of an order. Postgres holds null for the greatest value unless the query says otherwise."""

    field: Field
    descending: bool
    nulls_first: bool

    def sql(self, alias: str) -> str:
        """The key as `order by` takes it."""
        return (
            f"{compare_sql(self.field, column(alias, self.field))} {direction_sql(self.descending, self.nulls_first)}"
        )

    def reversed(self) -> "Sort":
        """The same key from the other end."""
        return replace(self, descending=not self.descending, nulls_first=not self.nulls_first)


def direction_sql(descending: bool, nulls_first: bool) -> str:
    """`asc` or `desc`, with the place of nulls where it is not Postgres's own."""
    nulls = "" if nulls_first == descending else f" nulls {'first' if nulls_first else 'last'}"
    return f"{'desc' if descending else 'asc'}{nulls}"


def parse_direction(label: str, wanted: Any) -> tuple[bool, bool]:
    """Whether it descends, and whether nulls come first: from `"desc"` or `{"sort": "desc", "nulls": "last"}`."""
    entries = named(wanted, label, ("sort", "nulls")) if isinstance(wanted, dict) else {"sort": wanted}
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
    return [entry for each in listed for entry in as_dict(each, label).items()]


def parse_order(model: Model, order: Any, *, stable: bool) -> list[Sort]:
    """The keys of an order; a stable one ends in the row's identity, so that pages neither overlap nor skip."""
    sorts = [_sort(model, name, wanted) for name, wanted in order_entries(f"{model.name}.order", order)]
    if stable:
        seen = {sort.field.name for sort in sorts}
        missing = [name for name in model.identity.fields if name not in seen]
        sorts += [Sort(model.fields[name], descending=False, nulls_first=False) for name in missing]
    return sorts


def order_sql(alias: str, sorts: list[Sort]) -> str:
    """The `order by` clause, or nothing."""
    return f" order by {', '.join(sort.sql(alias) for sort in sorts)}" if sorts else ""


def cursor_columns(alias: str, sorts: list[Sort]) -> str:
    """What a cursor's row must tell about its place."""
    places = (compare_sql(sort.field, column(alias, sort.field)) for sort in sorts)
    return ", ".join(f"{place} as {_place(number)}" for number, place in enumerate(places))


def from_cursor_sql(alias: str, cursor: str, sorts: list[Sort]) -> str:
    """True for the cursor's row and every row after it."""
    condition = "true"
    for number, sort in reversed(list(enumerate(sorts))):
        own, place = compare_sql(sort.field, column(alias, sort.field)), f"{cursor}.{_place(number)}"
        after = f"{own} {'<' if sort.descending else '>'} {place}"
        same = f"{own} = {place}"
        if not sort.field.required:
            # Where nulls come first, every value follows a null; where they come last, null follows every value.
            null, value = (place, own) if sort.nulls_first else (own, place)
            after = f"({after} or ({null} is null and {value} is not null))"
            same = f"{own} is not distinct from {place}"
        condition = f"({after} or ({same} and {condition}))"
    return condition


def _place(number: int) -> str:
    return quoted(f"place{number}")


def _sort(model: Model, name: str, wanted: Any) -> Sort:
    field = model.fields.get(name)
    if name == "_relevance":
        raise UnsupportedQuery(f"ordering by `_relevance` on {model.name}")
    if field is None or field.is_unsupported:
        raise unknown_field(model, name)
    if field.relation is not None:
        raise UnsupportedQuery(f"ordering by the relation {field.label}")
    descending, nulls_first = parse_direction(field.label, wanted)
    return Sort(field, descending, nulls_first)
