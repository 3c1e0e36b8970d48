"""The argv of a command: a template that an operator wrote, filled with a checked input.

A template is a list, never a shell command line. It begins with the absolute path of the program, or with a name for
which the definition's `programs` gives the path. Its elements are texts with placeholders, `{{ field }}` for a field of
the input and `{{ tenant.id }}`, `{{ tenant.slug }}` or `{{ job.id }}`, and `{"when": field, "args": [...]}` for
arguments that are left out unless the field is given. Each text becomes exactly one argument, whatever the values hold.
A value can never become an option. It may not begin an argument with a dash. A template is refused when it is saved
if a value is neither an option's nor after a literal `--`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from atlas.engine.secrets.fields import applying
from atlas.errors import FieldError, InvalidInput
from atlas.programs.argv import argument_problem, program_problem

MAX_ELEMENTS = 200
MAX_PROGRAMS = 20

FACTS = ("tenant.id", "tenant.slug", "job.id")
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*|tenant\.id|tenant\.slug|job\.id)\s*\}\}")
_PROGRAM_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII)
_SCALARS = {"string", "integer", "number", "boolean", "null"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a template may know besides the input."""

    tenant_id: UUID
    tenant_slug: str
    job_id: UUID

    def as_values(self) -> dict[str, str]:
        return {"tenant.id": str(self.tenant_id), "tenant.slug": self.tenant_slug, "job.id": str(self.job_id)}


def fill_argv(argv: Sequence[Any], input: Mapping[str, Any], facts: Facts) -> list[str]:
    """Return the arguments, one for each text of the template. Raises InvalidInput for a value that cannot be one."""
    values = {**scalars(input), **facts.as_values()}
    filled: list[str] = []
    for element in argv:
        if isinstance(element, str):
            filled.append(_argument(element, values))
        elif is_given(input, element["when"]):
            filled += [_argument(text, values) for text in element["args"]]
    return filled


def check_argv(argv: Any, schema: Mapping[str, Any], programs: Mapping[str, str]) -> list[FieldError]:
    """Return what is wrong with a template for inputs of this schema, or with the programs it may name."""
    if not isinstance(argv, list) or not argv or len(argv) > MAX_ELEMENTS:
        return [FieldError("argv", f"is not a list of 1 to {MAX_ELEMENTS} elements")]
    misshapen = [error for nth, element in enumerate(argv) for error in _check_shape(f"argv.{nth}", element, schema)]
    if misshapen:
        return misshapen
    errors = [*_check_programs(programs), *_check_program(argv[0], programs)]
    before: tuple[str, str | None] = ("", None)
    operands: tuple[bool, str | None] = (False, None)
    for path, text, present in _flat(argv):
        errors += check_text(path, text, schema, present=() if present is None else (present,))
        if (
            _begins_with_value(text)
            and not _holds(operands, present)
            and not _holds((_is_option(before[0]), before[1]), present)
        ):
            errors.append(FieldError(path, "needs a literal -- or an option such as --name before it"))
        if text == "--" and not _holds(operands, present):
            operands = (True, present)
        before = (text, present)
    return errors


def check_text(path: str, text: str, schema: Mapping[str, Any], *, present: Collection[str]) -> list[FieldError]:
    """Return what is wrong with one text of a template. `given`: optional fields that are set when the text is used."""
    errors = []
    if "\0" in text:
        errors.append(FieldError(path, "contains the character U+0000"))
    if re.search(r"\{\{|\}\}", _PLACEHOLDER.sub("", text)):
        reason = f"has a placeholder that is neither a field's name nor one of {', '.join(FACTS)}"
        errors.append(FieldError(path, reason))
    for field in fields_of(text):
        errors += [FieldError(path, reason) for reason in _check_field(field, schema, present)]
    return errors


def fields_of(text: str) -> list[str]:
    """The input fields that a text names."""
    return [name for name in _PLACEHOLDER.findall(text) if name not in FACTS]


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of one text. Placeholders within a value are not filled."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def is_given(input: Mapping[str, Any], field: str) -> bool:
    """A field is given unless it is missing, null or false."""
    value = input.get(field)
    return value is not None and value is not False


def _argument(text: str, values: Mapping[str, str]) -> str:
    try:
        argument = fill_text(text, values)
    except KeyError as error:
        raise _refused(str(error.args[0]), "is missing or not a text, a number or a boolean") from None
    fields = ", ".join(fields_of(text))
    reason = argument_problem(argument)
    if reason is not None:
        raise _refused(fields, reason)
    if argument.startswith("-") and _begins_with_value(text):
        raise _refused(fields, "begins with a dash, which would make it an option")
    return argument


def _refused(field: str, reason: str) -> InvalidInput:
    return InvalidInput("The input", [FieldError(field, reason)])


def scalars(input: Mapping[str, Any]) -> dict[str, str]:
    """The input's scalars as an argument holds them: texts as they are, the rest as JSON."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in input.items()
        if isinstance(value, str | int | float)
    }


def _check_shape(path: str, element: Any, schema: Mapping[str, Any]) -> Iterator[FieldError]:
    match element:
        case str():
            return
        case {"when": str(field), "args": [*texts], **rest} if not rest and all(
            isinstance(text, str) for text in texts
        ):
            if path == "argv.0":
                yield FieldError(path, "is the program and cannot be optional")
            if field not in (schema.get("properties") or {}):
                yield FieldError(f"{path}.when", f"names {field}, which the schema's properties do not have")
        case _:
            yield FieldError(path, 'is neither a text nor {"when": field, "args": [texts]}')


def _check_programs(programs: Mapping[str, str]) -> Iterator[FieldError]:
    if len(programs) > MAX_PROGRAMS:
        yield FieldError("programs", f"has more than {MAX_PROGRAMS} names")
    for name, path in programs.items():
        if not _PROGRAM_NAME.fullmatch(name):
            yield FieldError(
                "programs", f"{name[:100]!r} is not a name of letters, digits, dots, dashes and underscores"
            )
        if (reason := program_problem(path)) is not None:
            yield FieldError(f"programs.{name[:100]}", reason)


def _check_program(program: str, programs: Mapping[str, str]) -> Iterator[FieldError]:
    if program in programs:
        return
    if _PROGRAM_NAME.fullmatch(program):
        yield FieldError("argv.0", "is neither the absolute path of a program nor a name that programs gives a path")
    elif (reason := program_problem(program)) is not None:
        yield FieldError("argv.0", reason)


def _flat(argv: Sequence[Any]) -> Iterator[tuple[str, str, str | None]]:
    """Each text with its path in the template, and the field its `when` names."""
    for nth, element in enumerate(argv):
        if isinstance(element, str):
            yield f"argv.{nth}", element, None
        else:
            yield from ((f"argv.{nth}.args.{at}", text, element["when"]) for at, text in enumerate(element["args"]))


def _begins_with_value(text: str) -> bool:
    first = _PLACEHOLDER.match(text)
    return first is not None and first[1] not in FACTS


def _is_option(text: str) -> bool:
    return text.startswith("-") and text not in ("-", "--") and "=" not in text and not _PLACEHOLDER.search(text)


def _holds(seen: tuple[bool, str | None], present: str | None) -> bool:
    """True when something was seen that is present whenever this text is: what another `when` holds may be missing."""
    return seen[0] and seen[1] in (None, present)


def _check_field(field: str, schema: Mapping[str, Any], present: Collection[str]) -> Iterator[str]:
    described = schema.get("properties") or {}
    if field not in described:
        yield f"names {field}, which the schema's properties do not have"
    elif not any(_is_scalar(part) for part in applying([described[field]], schema)):
        yield f"names {field}, which the schema does not limit to a text, a number or a boolean"
    elif field not in present and field not in (schema.get("required") or []):
        yield f'names {field}, which is optional: put it into {{"when": "{field}", "args": [...]}}'


def _is_scalar(part: Mapping[str, Any]) -> bool:
    if "enum" in part or "const" in part:
        values = part["enum"] if "enum" in part else [part["const"]]
        return all(isinstance(value, str | int | float | None) for value in values)
    types = part.get("type")
    listed = [types] if isinstance(types, str) else types or []
    return bool(listed) and set(listed) <= _SCALARS
