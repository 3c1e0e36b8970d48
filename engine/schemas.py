"""JSON Schemas that users provide: which are accepted, and how an input is checked against one.

Patterns run in linear time, no reference is fetched, and messages never contain the value, which may be secret.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

import orjson

from atlas.errors import FieldError, InvalidInput

MAX_SCHEMA_SIZE = 64 * 1024
DEEPEST_SCHEMA = 32
MAX_PATTERN_LENGTH = 256
MAX_ERRORS = 20
# All errors are described at once, and each part of a schema takes 10 µs with each value: 60,000 wrong items took 3 s.
# With more parts times values than this only the first error is.
MAX_DESCRIBED = 2000
# Each part of a schema may be compared with each value of an input, and a reference is as many parts as it refers to.
MAX_PARTS = 20_000
# Parts times values that take some milliseconds, and the size of a schema that is compiled in as long.
QUICK_WORK = 100_000
QUICK_SCHEMA = 8 * 1024
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


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
    if len(text) > MAX_SCHEMA_SIZE:
        return [FieldError(field, f"is larger than {MAX_SCHEMA_SIZE // 1024} KiB")]
    errors = list(_forbidden(schema, field, depth=0))
    if not errors and _parts(text)[0] > MAX_PARTS:
        errors = [FieldError(field, f"has more than {MAX_PARTS:,} parts, where a reference is all that it refers to")]
    if not errors:
        import jsonschema_rs

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
            errors.append(FieldError(path, reason))
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            errors.append(FieldError(field, f"is not JSON Schema: {_first_line(error)}"))
    return errors


def schema_errors(schema: Mapping[str, Any], value: Mapping[str, Any], *, has_formats: bool = True) -> list[FieldError]:
    """Where a value does not fit a schema.

    Without `has_formats`, formats are descriptions. They are in a schema that was made of a handler's model: a model
    takes a UUID without dashes, or a time without a zone, which the formats of that name do not.
    """
    if not schema:
        return []
    text, values = orjson.dumps(schema), dict(value)
    validator = validator_of(text, has_formats)
    if validator.is_valid(values):
        return []
    if text.count(b"{") * orjson.dumps(values).count(b",") > MAX_DESCRIBED:
        errors = [_first_error(validator, values)]
    else:
        errors = list(islice(validator.iter_errors(values), MAX_ERRORS))
    return [FieldError(".".join(str(part) for part in error.instance_path), error.message) for error in errors]


def _first_error(validator: Any, value: dict[str, Any]) -> Any:
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("a value that is not valid has an error")


def is_quick(schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether a value is checked within milliseconds, for callers whose event loop must not wait."""
    text = orjson.dumps(schema)
    if len(text) > QUICK_SCHEMA:
        return False
    parts, is_recursive = _parts(text)
    return not is_recursive and parts * orjson.dumps(value).count(b",") < QUICK_WORK


@lru_cache(maxsize=256)
def _parts(text: bytes) -> tuple[int, bool]:
    """How many parts a schema has, where a reference is all that it refers to; and whether one refers to itself."""
    schema = orjson.loads(text)
    counts: dict[str, int] = {}
    within: set[str] = set()
    is_recursive = False

    def count(node: Any) -> int:
        if isinstance(node, list):
            return sum(map(count, node))
        if not isinstance(node, dict):
            return 0
        return 1 + sum(
            behind(item) if name in _REFERENCES and isinstance(item, str) else count(item)
            for name, item in node.items()
        )

    def behind(reference: str) -> int:
        nonlocal is_recursive
        if reference in within:
            is_recursive = True
            return 1
        if reference not in counts:
            within.add(reference)
            counts[reference] = count(_referred(schema, reference))
            within.remove(reference)
        return counts[reference]

    try:
        return count(schema), is_recursive
    except RecursionError:
        return MAX_PARTS + 1, True


def _referred(schema: Any, reference: str) -> Any:
    """The part of a schema that a reference names; None where there is none, which compiling it reports."""
    part = schema
    for step in unquote(reference).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, list):
            part = part[int(name)] if name.isdecimal() and int(name) < len(part) else None
        else:
            part = part.get(name) if isinstance(part, dict) else None
    return part


def template_errors(
    schema: Mapping[str, Any], template: Mapping[str, Any], is_constant: Callable[[Any], bool], *, has_formats: bool
) -> list[FieldError]:
    """Where a template cannot fit a schema, whatever is filled in: in its constant parts, and in the names it has."""
    text = orjson.dumps(schema)
    if not is_constant(template) and any(word in text for word in _CONDITIONS):
        return []
    errors = []
    for error in validator_of(text, has_formats).iter_errors(dict(template)):
        part: Any = template
        for step in error.instance_path:
            part = part[step]
        if is_constant(part) or error.kind.name in _OF_NAMES:
            errors.append(FieldError(".".join(str(step) for step in error.instance_path), error.message))
    return errors[:MAX_ERRORS]


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
    # Imported here: most commands check no input against a schema.
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        orjson.loads(text),
        mask="the value",
        pattern_options=jsonschema_rs.RegexOptions(size_limit=2**20, dfa_size_limit=2**20),
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
        elif name == "pattern" and isinstance(item, str) and len(item) > MAX_PATTERN_LENGTH:
            yield FieldError(here, f"is longer than {MAX_PATTERN_LENGTH} characters")
        elif name == "patternProperties" and isinstance(item, dict):
            for pattern in item:
                if len(pattern) > MAX_PATTERN_LENGTH:
                    yield FieldError(here, f"has a pattern longer than {MAX_PATTERN_LENGTH} characters")
        yield from _forbidden(item, here, depth + 1)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
