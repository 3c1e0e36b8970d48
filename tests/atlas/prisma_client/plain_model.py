"""Prisma's filters, order and pages over a list of dicts, in plain Python.

It shares nothing with the compiler: filters are three-valued functions (None is SQL's unknown), order is
Python's sort, a page is a slice.
"""

from operator import itemgetter
from typing import Any

Row = dict[str, Any]
Truth = bool | None

COLORS = ["red", "green", "blue"]  # Postgres orders an enum as it is declared


def both(*truths: Truth) -> Truth:
    """AND."""
    if False in truths:
        return False
    return None if None in truths else True


def negated(truth: Truth) -> Truth:
    """NOT."""
    return None if truth is None else not truth


def either(*truths: Truth) -> Truth:
    """OR."""
    return negated(both(*(negated(truth) for truth in truths)))


def matches(row: Row, tree: Row) -> Truth:
    """What a `where` says about a row."""
    truths: list[Truth] = []
    for name, wanted in tree.items():
        branches = [wanted] if isinstance(wanted, dict) else wanted
        if name == "AND":
            truths += [matches(row, branch) for branch in branches]
        elif name == "OR":
            truths.append(either(*(matches(row, branch) for branch in branches)))
        elif name == "NOT":
            truths += [negated(matches(row, branch)) for branch in branches if branch]
        else:
            truths.append(_filtered(row[name], wanted))
    return both(*truths)


def _filtered(held: Any, wanted: Any) -> Truth:
    if not isinstance(wanted, dict):
        wanted = {"equals": wanted}
    mode = wanted.get("mode")
    entries = [(name, value) for name, value in wanted.items() if name != "mode"]
    if mode == "insensitive":
        held = _lower(held)
        entries = [(name, _lower(value)) for name, value in entries]
    return both(*(_operator(held, name, value, mode) for name, value in entries))


def _lower(value: Any) -> Any:
    if isinstance(value, list):
        return [_lower(each) for each in value]
    return value.lower() if isinstance(value, str) else value


def _operator(held: Any, name: str, value: Any, mode: str | None) -> Truth:
    if name == "not" and isinstance(value, dict):
        return negated(_filtered(held, {**value, "mode": mode}))
    if value is None:
        return (held is None) == (name == "equals")
    if name in ("in", "not_in"):
        found = either(*(_operator(held, "equals", each, mode) for each in value)) if value else False
        return found if name == "in" else negated(found)
    if held is None:
        return None
    match name:
        case "equals":
            return bool(held == value)
        case "not":
            return bool(held != value)
        case "lt":
            return bool(held < value)
        case "lte":
            return bool(held <= value)
        case "gt":
            return bool(held > value)
        case "gte":
            return bool(held >= value)
        case "contains":
            return value in held
        case "startswith":
            return bool(held.startswith(value))
        case "endswith":
            return bool(held.endswith(value))
        case "has":
            return value in held
        case "has_every":
            return set(value) <= set(held)
        case "has_some":
            return bool(set(value) & set(held))
        case "is_empty":
            return (held == []) == value
    raise AssertionError(name)


def ordered(rows: list[Row], sorts: list[tuple[str, bool, bool]]) -> list[Row]:
    """Sorted by (field, descending, nulls first), the first key weighing most."""
    rows = list(rows)
    for field, descending, nulls_first in reversed(sorts):
        known = [(_sortable(row[field]), row) for row in rows if row[field] is not None]
        unknown = [row for row in rows if row[field] is None]
        known.sort(key=itemgetter(0), reverse=descending)
        sorted_rows = [row for _, row in known]
        rows = unknown + sorted_rows if nulls_first else sorted_rows + unknown
    return rows


def _sortable(value: Any) -> Any:
    return COLORS.index(value) if value in COLORS else value


def page(rows: list[Row], where: Row, sorts: list[tuple[str, bool, bool]], **arguments: Any) -> list[Row]:
    """The rows of a page, as the documentation of Prisma tells it."""
    take, skip, cursor = arguments.get("take"), arguments.get("skip") or 0, arguments.get("cursor")
    total = ordered(rows, [*sorts, ("id", False, False)])
    found = [row for row in total if matches(row, where) is True]
    if arguments.get("distinct"):
        first: dict[Any, Row] = {}
        for row in found:
            first.setdefault(tuple(str(row[name]) for name in arguments["distinct"]), row)
        found = list(first.values())
    backwards = take is not None and take < 0
    if backwards:
        total.reverse()
        found.reverse()
    if cursor is not None:
        ids = [row["id"] for row in total]
        start = ids.index(cursor) if cursor in ids else len(ids)
        found = [row for row in found if row["id"] in ids[start:]]
    found = found[skip:] if take is None else found[skip : skip + abs(take)]
    return found[::-1] if backwards else found
