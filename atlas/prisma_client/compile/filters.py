"""Filters on one value: `{"gt": 3}`, `{"contains": "x", "mode": "insensitive"}`, `{"has": "y"}`.

Nulls behave as in SQL and in Prisma: a comparison with null is neither true nor false, so `not` and
`not_in` do not find rows that hold null; `None` itself asks for null.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from atlas.prisma_client.compile.draft import Draft, named
from atlas.prisma_client.errors import missing_value, wrong_value
from atlas.prisma_client.values import PLAIN_TEXT, Codec

_COMPARISONS = {"equals": "=", "not": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
LIKE = {"contains": "%{}%", "startswith": "{}%", "endswith": "%{}"}
_LIST_OPERATORS = frozenset({"equals", "has", "has_every", "has_some", "is_empty"})


@dataclass(frozen=True, slots=True)
class Operand:
    """What is filtered: an expression, its codec, and whether it can be null."""

    sql: str
    codec: Codec
    label: str
    nullable: bool


def value_filter(draft: Draft, operand: Operand, filter_value: Any) -> str | None:
    """The condition that a filter, or a value that must be equalled, puts on the operand; None for an empty filter."""
    if not isinstance(filter_value, dict):
        return _compared(draft, operand, "equals", filter_value, insensitive=False)
    entries = named(filter_value, operand.label, operand.codec.operators)
    insensitive = _is_insensitive(operand, entries.pop("mode", None))
    return " and ".join(_conditions(draft, operand, entries, insensitive, negated=False)) or None


def list_filter(draft: Draft, operand: Operand, filter_value: Any) -> str:
    """The condition on a column that holds a list: exactly one operator."""
    if filter_value is None:
        raise missing_value(operand.label, "needs an operator")
    entries = named(filter_value, operand.label, _LIST_OPERATORS)
    if len(entries) != 1:
        raise wrong_value(operand.label, "exactly one operator", filter_value)
    return _list_condition(draft, operand, *next(iter(entries.items())))


def _is_insensitive(operand: Operand, mode: Any) -> bool:
    if mode not in (None, "default", "insensitive"):
        raise wrong_value(f"{operand.label}.mode", "'default' or 'insensitive'", mode)
    return bool(mode == "insensitive")


def _conditions(
    draft: Draft, operand: Operand, entries: dict[str, Any], insensitive: bool, *, negated: bool
) -> Iterator[str]:
    """One condition for each operator. A `not` around several denies each of them, as in Prisma."""
    for name, value in entries.items():
        if name == "not" and isinstance(value, dict):
            inner = named(value, operand.label, operand.codec.operators - {"mode"})
            yield from _conditions(draft, operand, inner, insensitive, negated=not negated)
        else:
            sql = _condition(draft, operand, name, value, insensitive)
            # Prisma reads a `not` of a value inside a `not` as that of the value.
            yield f"not ({sql})" if negated and name != "not" else sql


def _condition(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if name in _COMPARISONS:
        return _compared(draft, operand, name, value, insensitive)
    if name in LIKE:
        return _matched(draft, operand, name, value, insensitive)
    return _among(draft, operand, name, value, insensitive)


def _compared(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if value is None:
        return _is_null(operand, name)
    sign = _COMPARISONS[name]
    if insensitive:
        placeholder = draft.parameter(PLAIN_TEXT, value, operand.label)
        return f"lower({_text(operand)}) {sign} lower({placeholder})"
    left = operand.codec.compare.format(operand.sql)
    return f"{left} {sign} {draft.parameter(operand.codec, value, operand.label)}"


def _is_null(operand: Operand, name: str) -> str:
    if not operand.nullable or name not in ("equals", "not"):
        raise missing_value(operand.label, "cannot be compared with null")
    return f"{operand.sql} is {'not ' if name == 'not' else ''}null"


def _among(draft: Draft, operand: Operand, name: str, values: Any, insensitive: bool) -> str:
    if values is None:
        return _is_null(operand, "equals" if name == "in" else "not")
    sign = "= any" if name == "in" else "<> all"
    if insensitive:
        listed = draft.parameter_list(PLAIN_TEXT, values, operand.label)
        return f"lower({_text(operand)}) {sign} (select lower(v) from unnest({listed}) v)"
    left = operand.codec.compare.format(operand.sql)
    return f"{left} {sign} ({draft.parameter_list(operand.codec, values, operand.label)})"


def _matched(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if not isinstance(value, str):
        raise wrong_value(operand.label, "a str", value)
    pattern = draft.parameter(PLAIN_TEXT, like_pattern(name, value), operand.label)
    return f"{_text(operand)} {'ilike' if insensitive else 'like'} {pattern}"


def like_pattern(name: str, value: str) -> str:
    """The pattern of `contains`, `startswith` or `endswith`: the value is text to be found as it stands."""
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return LIKE[name].format(escaped)


def _text(operand: Operand) -> str:
    return operand.codec.text.format(operand.sql)


def _list_condition(draft: Draft, operand: Operand, name: str, value: Any) -> str:
    if name == "equals":
        if value is None:
            return f"{operand.sql} is null"
        return f"{operand.sql} = {draft.parameter_list(operand.codec, value, operand.label)}"
    if name == "has":
        return f"{draft.parameter(operand.codec, value, operand.label)} = any ({operand.sql})"
    if name == "is_empty":
        if not isinstance(value, bool):
            raise wrong_value(f"{operand.label}.is_empty", "a bool", value)
        return f"cardinality({operand.sql}) {'=' if value else '>'} 0"
    sign = "@>" if name == "has_every" else "&&"
    return f"{operand.sql} {sign} {draft.parameter_list(operand.codec, value, operand.label)}"
