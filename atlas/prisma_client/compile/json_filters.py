"""Filters on JSON: `{"path": ["a", "0"], "equals": Json(1)}`, `{"array_contains": Json([1])}`.

A document of another kind than the filter speaks of matches neither the filter nor its NOT, as in Prisma. A `json`
column is compared as `jsonb`, which alone can be.
"""

from typing import Any

from atlas.generated.fields import Json
from atlas.prisma_client.compile.draft import Draft, named
from atlas.prisma_client.compile.filters import like_pattern
from atlas.prisma_client.errors import missing_value, wrong_input, wrong_value
from atlas.prisma_client.schema import Field
from atlas.prisma_client.values import JSONB, PLAIN_TEXT

_COMPARISONS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_STRINGS = {"string_contains": "contains", "string_starts_with": "startswith", "string_ends_with": "endswith"}
_ARRAYS = {"array_contains": "{} @> {}", "array_starts_with": "{} -> 0 = {}", "array_ends_with": "{} -> -1 = {}"}
_OPERATORS = frozenset({"path", "equals", "not", *_COMPARISONS, *_STRINGS, *_ARRAYS})


def json_filter(draft: Draft, field: Field, sql: str, filter_value: Any) -> str | None:
    """The condition on a column of documents; None for an empty filter."""
    entries = (
        named(filter_value, field.label, _OPERATORS) if isinstance(filter_value, dict) else {"equals": filter_value}
    )
    element = sql if field.pg_type == "jsonb" else f"{sql}::jsonb"
    text = f"{element}::text"
    null = sql  # not every document that json can hold is one of jsonb
    if "path" in entries:
        path = draft.parameter_list(PLAIN_TEXT, entries.pop("path"), f"{field.label}.path")
        element, text = f"({element} #> {path})", f"({element} #>> {path})"
        null = element
        if not entries:
            raise wrong_input(f"A JSON path on {field.label} needs a filter.")
    parts = [
        _is_null(field, null, name)
        if value is None and name in ("equals", "not")
        else _condition(draft, field, element, text, name, value)
        for name, value in entries.items()
    ]
    return " and ".join(parts) or None


def _condition(draft: Draft, field: Field, element: str, text: str, name: str, value: Any) -> str:
    label = f"{field.label}.{name}"
    if name in ("equals", "not"):
        return f"{element} {'=' if name == 'equals' else '<>'} {draft.parameter(JSONB, value, field.label)}"
    if name in _STRINGS:
        if not isinstance(value, str):
            raise wrong_value(label, "a str", value)
        pattern = draft.parameter(PLAIN_TEXT, like_pattern(_STRINGS[name], value), label)
        return _of_kind(draft, f"{text} like {pattern}", element, "string")
    document = draft.parameter(JSONB, value, label)
    if name in _ARRAYS:
        return _of_kind(draft, _ARRAYS[name].format(element, document), element, "array")
    return _of_kind(draft, f"{element} {_COMPARISONS[name]} {document}", element, _kind(label, value))


def _of_kind(draft: Draft, condition: str, element: str, kind: str) -> str:
    if draft.negated:
        return f"({condition} or jsonb_typeof({element}) <> '{kind}')"
    return f"({condition} and jsonb_typeof({element}) = '{kind}')"


def _kind(label: str, value: Json) -> str:
    """What a document must be to be less or greater than another."""
    match value.data:
        case str():
            return "string"
        case int() | float() if not isinstance(value.data, bool):
            return "number"
    raise wrong_value(label, "Json of a number or a string", value.data)


def _is_null(field: Field, element: str, name: str) -> str:
    if field.required:
        raise missing_value(field.label, "cannot be compared with null")
    return f"{element} is {'not ' if name == 'not' else ''}null"
