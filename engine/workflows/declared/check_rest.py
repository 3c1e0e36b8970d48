"""A document without its parts that are wrong, so that the mistakes in the others are found too."""

import re
from collections.abc import Mapping, Set
from typing import Any

from atlas.engine.workflows.declared.document import KINDS

# A field of a step, a step, or a field at the top. A step whose needs form a circle is wrong as a whole: without them
# it would read steps that it seems not to need.
_PART = re.compile(r"steps\[\d+\](?:\.(?!needs$)\w+)?|[^.\[]*")
# What stands where a step or the key was wrong. Its own mistakes are not reported.
_KEY = "unnamed"
_KIND = {"sleep": 1}


def part_of(field: str) -> str:
    """The part of a document that a path leads into."""
    match = _PART.match(field)
    return match[0] if match else ""


def without(value: Any, wrong: Set[str]) -> Any:
    """The document without its wrong fields, and with a harmless step in the place of each that is wrong as a whole.

    Such a step keeps its id and its needs, so that others may still need it and read its output.
    """
    if not isinstance(value, Mapping):
        return value
    kept = {name: inner for name, inner in value.items() if name not in wrong}
    if "key" in wrong:
        kept["key"] = _KEY
    steps = kept.get("steps")
    if isinstance(steps, list):
        kept["steps"] = _correct(steps, wrong)
    return kept


def _correct(steps: list[Any], wrong: Set[str]) -> list[Any]:
    ids: list[Any] = []
    corrected = []
    for number, step in enumerate(steps):
        path = f"steps[{number}]"
        given = step if isinstance(step, Mapping) else {}
        is_fit = isinstance(given.get("id"), str) and f"{path}.id" not in wrong
        id = given["id"] if is_fit else f"unnamed_{number}"
        corrected.append({**_fields(given, path, wrong), **_needs(given, path, wrong, ids), "id": id})
        ids.append(id)
    return corrected


def _fields(step: Mapping[str, Any], path: str, wrong: Set[str]) -> dict[str, Any]:
    """What a step does: as it was without its wrong fields, or nothing where it is wrong what kind of step it is."""
    if path in wrong or any(f"{path}.{kind}" in wrong for kind in KINDS):
        return {"event": "any"} if "event" in step else _KIND
    return {name: inner for name, inner in step.items() if f"{path}.{name}" not in wrong}


def _needs(step: Mapping[str, Any], path: str, wrong: Set[str], earlier: list[Any]) -> dict[str, Any]:
    """Where they are wrong: only steps before it, so that needs form no circle."""
    needs = step.get("needs")
    if f"{path}.needs" in wrong:
        return {"needs": [*earlier]}
    if path in wrong and isinstance(needs, list):
        return {"needs": [need for need in needs if need in earlier]}
    return {} if needs is None else {"needs": needs}
