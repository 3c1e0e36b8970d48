"""JSON Schemas that users provide: which are accepted, and how an input is checked against one.

Patterns run in linear time, no reference is fetched, and messages never contain the value, which may be secret.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from atlas.errors import FieldError, InvalidInput

LARGEST_SCHEMA = 64 * 1024
DEEPEST_SCHEMA = 32
LONGEST_PATTERN = 256
MOST_ERRORS = 20
# All errors are described at once, and each part of a schema takes 10 µs with each value: 60,000 wrong items took 3 s.
# With more parts times values than this only the first error is.
MOST_DESCRIBED = 2000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=2**20, dfa_size_limit=2**20)


# Keywords whose errors depend on names alone, and those that make other errors depend on values elsewhere.
_OF_NAMES = ("required", "additionalProperties")
_CONDITIONS = (b'"if"', b'"dependentSchemas"')
# Formats are those of JSON Schema. An unknown one would check nothing, so it is refused where a schema is saved.
_KNOWN_FORMATS = "date, date-time, time, duration, email, hostname, ipv4, ipv6, uri, uuid, regex or json-pointer"


def check_schema(schema: Mapping[str, Any], *, field: str) -> list[FieldError]:
    """Why a schema is refused; size and depth are checked before anything costly."""
    try:
        text = orjson.dumps(schema)
    except TypeError as error:
        return [FieldError(field, f"is not plain JSON: {error}")]
    if len(text) > LARGEST_SCHEMA:
        return [FieldError(field, f"is larger than {LARGEST_SCHEMA // 1024} KiB")]
    found = list(_forbidden(schema, field, depth=0))
    if not found:
        try:
            validator_of(text)
            _compiled(text, ignore_unknown_formats=False)
        except jsonschema_rs.ValidationError as error:
            path = ".".join([field, *(str(part) for part in error.instance_path)])
            unknown = bool(error.instance_path) and error.instance_path[-1] == "format"
            reason = (
                f"is not one of JSON Schema, such as {_KNOWN_FORMATS}"
                if unknown
                else f"is not JSON Schema: {error.message}"
            )
            found.append(FieldError(path, reason))
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            found.append(FieldError(field, f"is not JSON Schema: {_first_line(error)}"))
    return found


def schema_errors(schema: Mapping[str, Any], value: Mapping[str, Any], *, has_formats: bool = True) -> list[FieldError]:
    """Where a value does not fit a schema.

    Without `has_formats`, formats are descriptions. They are in a schema that was made of a handler's model: a model
    takes a UUID without dashes, or a time without a zone, which the formats of that name do not.
    """
    if not schema:
        return []
    text, given = orjson.dumps(schema), dict(value)
    validator = validator_of(text, has_formats)
    if validator.is_valid(given):
        return []
    if text.count(b"{") * orjson.dumps(given).count(b",") > MOST_DESCRIBED:
        found = [_first_error(validator, given)]
    else:
        found = list(islice(validator.iter_errors(given), MOST_ERRORS))
    return [FieldError(".".join(str(part) for part in error.instance_path), error.message) for error in found]


def _first_error(validator: Any, value: dict[str, Any]) -> Any:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("a value that is not valid has an error")


def template_errors(
    schema: Mapping[str, Any], template: Mapping[str, Any], is_constant: Callable[[Any], bool], *, has_formats: bool
) -> list[FieldError]:
    """Where a template cannot fit a schema, whatever is filled in: in its constant parts, and in the names it has."""
    text = orjson.dumps(schema)
    if not is_constant(template) and any(word in text for word in _CONDITIONS):
        return []
    found = []
    for error in validator_of(text, has_formats).iter_errors(dict(template)):
        part: Any = template
        for step in error.instance_path:
            part = part[step]
        if is_constant(part) or error.kind.name in _OF_NAMES:
            found.append(FieldError(".".join(str(step) for step in error.instance_path), error.message))
    return found[:MOST_ERRORS]


def require_fit(schema: Mapping[str, Any], value: Mapping[str, Any], *, what: str, has_formats: bool = True) -> None:
    """Refuse a value that does not fit a schema."""
    errors = schema_errors(schema, value, has_formats=has_formats)
    if errors:
        raise InvalidInput(what, errors)


@lru_cache(maxsize=256)
def validator_of(text: bytes, has_formats: bool = True) -> Any:
    """The compiled form of a schema, cached for the next input."""
    return _compiled(text, validate_formats=has_formats)


def _compiled(text: bytes, *, validate_formats: bool = True, ignore_unknown_formats: bool = True) -> Any:
    return jsonschema_rs.validator_for(
        orjson.loads(text),
        mask="the value",
        pattern_options=_PATTERNS,
        retriever=_fetch_nothing,
        validate_formats=validate_formats,
        ignore_unknown_formats=ignore_unknown_formats,
    )


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is elsewhere, and nothing is fetched")


def _forbidden(node: Any, path: str, depth: int) -> Iterator[FieldError]:
    if depth > DEEPEST_SCHEMA:
        yield FieldError(path, f"is nested deeper than {DEEPEST_SCHEMA} levels")
        return
    if isinstance(node, list):
        for nth, item in enumerate(node):
            yield from _forbidden(item, f"{path}.{nth}", depth + 1)
        return
    if not isinstance(node, dict):
        return
    for name, item in node.items():
        here = f"{path}.{name}"
        if name in _REFERENCES and isinstance(item, str) and item != "#" and not item.startswith("#/"):
            yield FieldError(here, "refers to a schema elsewhere; only references such as #/$defs/name are followed")
        elif name == "$id" and isinstance(item, str) and depth:
            yield FieldError(here, "changes what references mean; only a whole schema has an $id")
        elif name == "pattern" and isinstance(item, str) and len(item) > LONGEST_PATTERN:
            yield FieldError(here, f"is longer than {LONGEST_PATTERN} characters")
        elif name == "patternProperties" and isinstance(item, dict):
            for pattern in item:
                if len(pattern) > LONGEST_PATTERN:
                    yield FieldError(here, f"has a pattern longer than {LONGEST_PATTERN} characters")
        yield from _forbidden(item, here, depth + 1)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
