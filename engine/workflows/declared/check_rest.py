"""A document without its parts that are wrong, so that the mistakes in the others are found too."""

import re
from collections.abc import Mapping, Set
from typing import Any

_PART = re.compile(r"steps\[\d+\]|[^.\[]*")
# What stands where a step or the key was wrong. Its own mistakes are not reported.
_KEY = "unnamed"
_KIND = {"sleep": 1}


def part_of(field: str) -> str:
    """The part of a document that a path leads into: a step, or a field at the top."""
    match = _PART.match(field)
    return match[0] if match else ""


def without(value: Any, wrong: Set[str]) -> Any:
    """The document with a harmless step in the place of each wrong one, and without other wrong fields.

    Such a step keeps its id and its needs, so that others may still need it and read its output.
    """
    if not isinstance(value, Mapping):
        return value
    kept = {name: inner for name, inner in value.items() if name not in wrong}
    if "key" in wrong:
        kept["key"] = _KEY
    steps = kept.get("steps")
    if isinstance(steps, list):
        ids = [step.get("id") for step in steps if isinstance(step, Mapping)]
        kept["steps"] = [
            _harmless(step, number, ids) if f"steps[{number}]" in wrong else step for number, step in enumerate(steps)
        ]
    return kept


def _harmless(step: Any, number: int, ids: list[Any]) -> dict[str, Any]:
    mapping = step if isinstance(step, Mapping) else {}
    id, needs = mapping.get("id"), mapping.get("needs")
    is_fit = isinstance(id, str) and ids.count(id) == 1
    kind = {"event": "any"} if "event" in mapping else _KIND
    # Only steps before it, so that needs form no circle.
    earlier = ids[:number]
    kept = [need for need in needs if need in earlier] if isinstance(needs, list) else []
    return {"id": id if is_fit else f"unnamed-{number}", "needs": kept, **kind}
