"""Filters on one value: `{"gt": 3}`, `{"contains": "x", "mode": "insensitive"}`, `{"has": "y"}`.

Nulls behave as in SQL and in Prisma: a comparison with null is neither true nor false, so `not` and
`not_in` do not find rows that hold null; `None` itself asks for null.
"""

from dataclasses import dataclass
from typing import Any

from atlas.prisma_client.compile.draft import Draft, named
from atlas.prisma_client.errors import missing_value, wrong_value
from atlas.prisma_client.values import PLAIN_TEXT, Codec

_COMPARISONS = {"equals": "=", "not": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_LIKE = {"contains": "%{}%", "startswith": "{}%", "endswith": "%{}"}
_LIST_OPERATORS = frozenset({"equals", "has", "has_every", "has_some", "is_empty"})


@dataclass(frozen=True, slots=True)
class Operand:
    """What is filtered: an expression, its codec, and whether it can be null."""

    sql: str
    codec: Codec
    label: str
    nullable: bool


def value_filter(draft: Draft, operand: Operand, wanted: Any, *, insensitive: bool = False) -> str:
    """The condition that a filter, or a plain value that must be equalled, puts on the operand."""
    if not isinstance(wanted, dict):
        return _compared(draft, operand, "equals", wanted, insensitive)
    entries = named(wanted, operand.label, operand.codec.operators)
    insensitive = _is_insensitive(operand, entries.pop("mode", None), insensitive)
    parts = [_condition(draft, operand, name, value, insensitive) for name, value in entries.items()]
    return " and ".join(parts) or "true"


def list_filter(draft: Draft, operand: Operand, wanted: Any) -> str:
    """The condition on a column that holds a list. A list never set counts as empty, since it reads as empty."""
    if not isinstance(wanted, dict):
        wanted = {"equals": wanted}
    entries = named(wanted, operand.label, _LIST_OPERATORS)
    return " and ".join(_list_condition(draft, operand, *entry) for entry in entries.items()) or "true"


def _is_insensitive(operand: Operand, mode: Any, inherited: bool) -> bool:
    if mode not in (None, "default", "insensitive"):
        raise wrong_value(f"{operand.label}.mode", "'default' or 'insensitive'", mode)
    return inherited if mode is None else mode == "insensitive"


def _condition(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if name == "not" and isinstance(value, dict):
        return f"not ({value_filter(draft, operand, value, insensitive=insensitive)})"
    if name in _COMPARISONS:
        return _compared(draft, operand, name, value, insensitive)
    if name in _LIKE:
        return _matched(draft, operand, name, value, insensitive)
    return _among(draft, operand, name, value, insensitive)


def _compared(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if value is None:
        return _is_null(operand, name)
    sign = _COMPARISONS[name]
    if insensitive:
        wanted = draft.parameter(PLAIN_TEXT, value, operand.label)
        return f"lower({_text(operand)}) {sign} lower({wanted})"
    left = operand.codec.compare.format(operand.sql)
    return f"{left} {sign} {draft.parameter(operand.codec, value, operand.label)}"


def _is_null(operand: Operand, name: str) -> str:
    if not operand.nullable or name not in ("equals", "not"):
        raise missing_value(operand.label, "cannot be compared with null")
    return f"{operand.sql} is {'not ' if name == 'not' else ''}null"


def _among(draft: Draft, operand: Operand, name: str, values: Any, insensitive: bool) -> str:
    sign = "= any" if name == "in" else "<> all"
    if insensitive:
        listed = draft.parameter_list(PLAIN_TEXT, values, operand.label)
        return f"lower({_text(operand)}) {sign} (select lower(v) from unnest({listed}) v)"
    left = operand.codec.compare.format(operand.sql)
    return f"{left} {sign} ({draft.parameter_list(operand.codec, values, operand.label)})"


def _matched(draft: Draft, operand: Operand, name: str, value: Any, insensitive: bool) -> str:
    if not isinstance(value, str):
        raise wrong_value(operand.label, "a str", value)
    # The value is text to be found as it stands, so its wildcards lose their meaning.
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    pattern = draft.parameter(PLAIN_TEXT, _LIKE[name].format(escaped), operand.label)
    return f"{_text(operand)} {'ilike' if insensitive else 'like'} {pattern}"


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
        return f"coalesce(cardinality({operand.sql}), 0) {'=' if value else '>'} 0"
    sign = "@>" if name == "has_every" else "&&"
    return f"{operand.sql} {sign} {draft.parameter_list(operand.codec, value, operand.label)}"
