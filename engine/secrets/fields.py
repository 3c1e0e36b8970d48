"""Finds the fields of an input that a schema marks as secret.

A field is secret if any part of the schema that could apply to it says so: rather too much is hidden than too little.
"""

from collections.abc import Iterator, Mapping
from typing import Any

MARK = "x-secret"
_COMBINED = ("allOf", "anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else", "not")
_OF_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")


def has_secrets(schema: Any) -> bool:
    """True when a schema marks anything."""
    match schema:
        case dict():
            return schema.get(MARK) is True or any(has_secrets(part) for part in schema.values())
        case list():
            return any(has_secrets(part) for part in schema)
        case _:
            return False


def secret_values(schema: Mapping[str, Any], input: Any) -> Iterator[tuple[str, Any]]:
    """The values of an input that its schema marks, each with its JSON pointer."""

    def look(value: Any, parts: list[Any], path: str) -> Iterator[tuple[str, Any]]:
        here = applying(parts, schema)
        if path and value is not None and is_marked(here):
            yield path, value
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from look(item, of_name(here, name), path + step_to(name))
        elif isinstance(value, list):
            for nth, item in enumerate(value):
                yield from look(item, of_item(here, nth), path + step_to(nth))

    return look(input, [schema], "")


def applying(parts: list[Any], root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The schemas that may apply to one value: those given, what they refer to, and every branch they combine."""
    waiting, seen = [part for part in parts if isinstance(part, dict)], dict[int, dict[str, Any]]()
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting += [branch for branch in _branches(part, root) if isinstance(branch, dict)]
    return list(seen.values())


def is_marked(parts: list[dict[str, Any]]) -> bool:
    """True when one of the schemas that apply marks its value."""
    return any(part.get(MARK) is True for part in parts)


def of_name(parts: list[dict[str, Any]], name: str) -> list[Any]:
    """What may apply to a member of an object."""
    schemas: list[Any] = []
    for part in parts:
        own = part.get("properties") or {}
        # Patterns are not evaluated: each may match.
        schemas += [own.get(name), *(part.get("patternProperties") or {}).values()]
        if name not in own:
            schemas += [part.get("additionalProperties"), part.get("unevaluatedProperties")]
    return schemas


def of_item(parts: list[dict[str, Any]], nth: int) -> list[Any]:
    """What may apply to an item of a list."""
    schemas: list[Any] = []
    for part in parts:
        items = part.get("items")
        schemas += [part.get(word) for word in _OF_ITEMS]
        schemas += (part.get("prefixItems") or (items if isinstance(items, list) else []))[nth : nth + 1]
    return schemas


def _branches(part: dict[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    for word in _COMBINED:
        yield from part.get(word) or []
    for word in _CONDITIONAL:
        yield part.get(word)
    yield from (part.get("dependentSchemas") or {}).values()
    yield referred(part.get("$ref"), root)


def referred(reference: Any, root: Mapping[str, Any]) -> Any:
    """What a reference within a schema points to; None where it points elsewhere or nowhere."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: Any = root
    for step in steps(reference.removeprefix("#")):
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def step_to(name: str | int) -> str:
    """One more step of a JSON pointer."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")
