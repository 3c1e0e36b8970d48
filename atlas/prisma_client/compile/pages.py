"""A page of rows: where, order, cursor, skip, take and distinct, of a model or of a relation."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from atlas.db.schema import qualified
from atlas.prisma_client.compile.draft import Draft, column, named, scalar
from atlas.prisma_client.compile.order import (
    Sort,
    cursor_columns,
    from_cursor_sql,
    order_sql,
    parse_order,
)
from atlas.prisma_client.compile.sources import source_sql
from atlas.prisma_client.compile.where import unique_sql, where_sql
from atlas.prisma_client.errors import wrong_value
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import INT8, compare_sql

PAGE_ARGUMENTS = ("where", "order_by", "cursor", "take", "skip", "distinct")
_RANK = '"distinct rank"'  # a name no column of the schema can have


@dataclass(frozen=True, slots=True)
class PageClause:
    """Which rows, in which order. `backwards` pages are read from the end and turned round afterwards."""

    where: Any
    sorts: list[Sort]
    cursor: Any
    limit: int | None
    skip: int
    distinct: list[Field]
    backwards: bool


def parse_page(
    draft: Draft,
    model: Model,
    arguments: Mapping[str, Any],
    allowed: Collection[str] = PAGE_ARGUMENTS,
    *,
    stable: bool = False,
) -> PageClause:
    """The page that a call's arguments describe. A negative `take` counts from the end.

    Pages get a stable order; other reads only where it is asked for, since it may cost a sort.
    """
    options = {name: value for name, value in named(arguments, model.name, allowed).items() if value is not None}
    take, skip = _number(model, options, "take"), _number(model, options, "skip")
    if skip is not None and skip < 0:
        raise wrong_value(f"{model.name}.skip", "a number of rows", skip)
    distinct = _distinct(model, options.get("distinct"))
    stable = stable or take is not None or skip is not None or "cursor" in options or bool(distinct)
    sorts = parse_order(draft, model, options.get("order_by"), stable=stable)
    backwards = take is not None and take < 0
    return PageClause(
        where=options.get("where"),
        sorts=[sort.reversed() for sort in sorts] if backwards else sorts,
        cursor=options.get("cursor"),
        limit=None if take is None else abs(take),
        skip=skip or 0,
        distinct=distinct,
        backwards=backwards,
    )


def page_sql(
    draft: Draft, model: Model, alias: str, columns: str, page: PageClause, joined: Callable[[str], str] | None = None
) -> str:
    """Select `columns` of the page's rows; `joined` ties them to the row of an outer query."""
    inner = draft.alias() if page.distinct else alias
    conditions = [joined(inner)] if joined else []
    if page.where is not None:
        conditions.append(where_sql(draft, model, inner, page.where))
    source = f"{source_sql(draft, model, page.where)} {inner}"
    if page.cursor is not None:
        cursor = draft.alias()
        source += f" cross join ({_cursor_sql(draft, model, page)}) {cursor}"
        conditions.append(from_cursor_sql(inner, cursor, page.sorts))
    if page.distinct:
        source = f"({_ranked_sql(inner, source, conditions, page)}) {alias}"
        conditions = [f"{alias}.{_RANK} = 1"]
    order, limit = order_sql(alias, page.sorts), limit_sql(draft, page.limit, page.skip)
    if limit:
        # Only the rows of the page are cast for the models; Postgres would cast every row that it sorts.
        source, conditions = f"(select {alias}.* from {source}{_where(conditions)}{order}{limit}) {alias}", []
    return f"select {columns} from {source}{_where(conditions)}{order}"


def limit_sql(draft: Draft, limit: int | None, skip: int) -> str:
    """The `limit` and `offset` clauses, where there are any."""
    sql = "" if limit is None else f" limit {draft.parameter(INT8, limit, 'take')}"
    return sql + (f" offset {draft.parameter(INT8, skip, 'skip')}" if skip else "")


def _ranked_sql(alias: str, source: str, conditions: list[str], page: PageClause) -> str:
    """Every row with its rank among those that share the distinct values; the first in order stays."""
    shared = ", ".join(compare_sql(field, column(alias, field)) for field in page.distinct)
    rank = f"row_number() over (partition by {shared}{order_sql(alias, page.sorts)}) as {_RANK}"
    return f"select {alias}.*, {rank} from {source}{_where(conditions)}"


def _cursor_sql(draft: Draft, model: Model, page: PageClause) -> str:
    """The place of the cursor's row, which need not be among the rows asked for. No such row, no page."""
    alias = draft.alias()
    condition = unique_sql(draft, model, alias, page.cursor)
    return f"select {cursor_columns(alias, page.sorts)} from {qualified(model.table)} {alias} where {condition}"


def _where(conditions: list[str]) -> str:
    return f" where {' and '.join(conditions)}" if conditions else ""


def _number(model: Model, options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise wrong_value(f"{model.name}.{name}", "an int", value)
    return value


def _distinct(model: Model, names: Any) -> list[Field]:
    if names is None:
        return []
    if not isinstance(names, list | tuple):
        raise wrong_value(f"{model.name}.distinct", "a list of fields", names)
    return [scalar(model, name) for name in dict.fromkeys(names)]
