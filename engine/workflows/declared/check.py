"""Checks a document before it is saved: every mistake at once, each with its path."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime
from itertools import chain, islice
from typing import Any

import orjson
from pydantic import ValidationError

from atlas.db.pg_json import holds_nul
from atlas.engine.admission import ENGINE_RUN, NOT_A_JOB
from atlas.engine.schemas import check_schema
from atlas.engine.secrets.fields import has_secrets
from atlas.engine.templates import check_expressions, check_template, references
from atlas.engine.validation import check_name
from atlas.engine.workflows.declared.check_rest import part_of, without
from atlas.engine.workflows.declared.document import KINDS, Document, Seconds, Step, UndoStep, seconds_of
from atlas.engine.workflows.registry import SECRETS_REFUSED, SECRETS_REMEDY
from atlas.errors import FieldError, InvalidInput

MAX_DOCUMENT = 256 * 1024
# Of a document in which everything is wrong, the first tell enough.
MAX_ERRORS = 100
NO_TIMEOUT = "is neither seconds nor a duration such as 90s, 10m or 1h30m, of up to 100 years"
_INDEX = re.compile(r"\.(\d+)(?=\.|$)")
# The kinds of step that a timeout and retries apply to.
_TIMED = {"job", "workflow", "event", "approval"}
_RETRIED = {"job", "workflow"}


def parse_document(value: Mapping[str, Any]) -> Document:
    """The document, or InvalidInput with everything that is wrong with it."""
    errors = check_document(value)
    if errors:
        raise InvalidInput("The workflow", errors)
    return Document.model_validate(value)


def check_document(value: Any) -> list[FieldError]:
    """All that is wrong, or the first of it: unknown fields, missing steps, cycles, templates that cannot be read."""
    unreadable = _check_text(value)
    if unreadable:
        return unreadable
    errors: list[FieldError] = []
    wrong: set[str] = set()
    # What is wrong is left out, and the rest checked again: a misspelled field hides no cycle and no wrong template.
    while mistakes := [error for error in islice(_errors(value), MAX_ERRORS) if part_of(error.field) not in wrong]:
        errors += mistakes
        wrong |= {part_of(error.field) for error in mistakes}
        value = without(value, wrong)
    return errors[:MAX_ERRORS]


def _check_text(value: Any) -> list[FieldError]:
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        return [FieldError("", f"is not plain JSON: {error}")]
    if len(text) > MAX_DOCUMENT:
        return [FieldError("", f"is larger than {MAX_DOCUMENT // 1024} KiB")]
    if too_many := check_expressions(value, ""):
        return too_many
    if holds_nul(text.decode()):
        return [FieldError("", "contains the character U+0000")]
    return []


def _errors(value: Any) -> Iterable[FieldError]:
    try:
        document = Document.model_validate(value)
    except ValidationError as error:
        return list(_mistakes(error))
    errors = [*_check_key(document), *_check_schema(document), *_check_graph(document)]
    return errors or chain(
        *(_check_step(document, number, step) for number, step in enumerate(document.steps)), _check_output(document)
    )


def _mistakes(error: ValidationError) -> Iterator[FieldError]:
    """The errors of pydantic, without those that follow from others: to it a list of only wrong items is empty."""
    errors = error.errors(include_url=False)
    for mistake in errors:
        loc = mistake["loc"]
        has_wrong_items = any(len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in errors)
        if mistake["type"] != "too_short" or not has_wrong_items:
            yield FieldError(_path(loc), _reason(mistake))


def _path(loc: tuple[int | str, ...]) -> str:
    # A union's members are part of pydantic's path, not of the document's.
    path = ".".join(
        str(part)
        for part in loc
        if part not in ("UndoStep", "str", "bool", "int", "float", "list[any]")
        and not (isinstance(part, str) and part.startswith(("literal[", "constrained")))
    )
    return _INDEX.sub(r"[\1]", path)


def _reason(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a field of a workflow"
    return str(error["msg"]).removeprefix("Value error, ")


def _check_key(document: Document) -> Iterator[FieldError]:
    """A key is named in requests, and is part of the workflow's address."""
    yield from check_name("key", document.key)
    if "/" in document.key or document.key.startswith("."):
        yield FieldError("key", "must not hold a slash, nor begin with a dot")


def _check_schema(document: Document) -> Iterator[FieldError]:
    wrong = check_schema(document.input_schema, field="inputSchema")
    yield from wrong
    if not wrong and has_secrets(document.input_schema):
        yield FieldError("inputSchema", f"{SECRETS_REFUSED}. {SECRETS_REMEDY}")


def _check_graph(document: Document) -> Iterator[FieldError]:
    ids = [step.id for step in document.steps]
    # These are left out as a whole when the rest is checked again.
    broken: set[int] = set()
    for number, step in enumerate(document.steps):
        path = f"steps[{number}]"
        if ids.index(step.id) != number:
            yield FieldError(f"{path}.id", f"{step.id!r} is the id of steps[{ids.index(step.id)}] too")
        for index, need in enumerate(step.needs):
            if need not in ids:
                yield FieldError(f"{path}.needs[{index}]", f"there is no step {need!r}")
        kinds = [kind for kind in KINDS if getattr(step, kind) is not None]
        if len(kinds) != 1:
            broken.add(number)
            yield FieldError(
                path, f"needs exactly one of {', '.join(KINDS)}; it has {' and '.join(kinds) or 'none of them'}"
            )
    # With one id for two steps there would be circles that are none.
    cycle = _cycle(document) if len(set(ids)) == len(ids) else []
    if cycle:
        broken.add(ids.index(cycle[0]))
        yield FieldError(f"steps[{ids.index(cycle[0])}].needs", f"form a circle: {' → '.join(cycle)}")
    for number in sorted(broken):
        yield from _check_broken_step(f"steps[{number}]", document.steps[number])


def _check_broken_step(path: str, step: Step) -> Iterator[FieldError]:
    """What is wrong with a step whatever it does and needs."""
    yield from _check_job(step.job, f"{path}.job")
    if step.timeout is not None and not seconds_of(step.timeout):
        yield FieldError(f"{path}.timeout", NO_TIMEOUT)
    for field, value in step.templates.items():
        yield from check_template(value, path=f"{path}.{field}")
    yield from check_template(step.if_, path=f"{path}.if", condition=True)
    if isinstance(step.on_failure, UndoStep):
        yield from _check_undo_kind(step.on_failure, f"{path}.onFailure")
        yield from check_template(step.on_failure.with_, path=f"{path}.onFailure.with")


def _cycle(document: Document) -> list[str]:
    """The steps of a circle of needs, or none."""
    needs = {step.id: step.needs for step in document.steps}
    done: set[str] = set()

    def walk(id: str, way: list[str]) -> list[str]:
        if id in way:
            return [*way[way.index(id) :], id]
        if id in done or id not in needs:
            return []
        for need in needs[id]:
            cycle = walk(need, [*way, id])
            if cycle:
                return cycle
        done.add(id)
        return []

    return next((cycle for step in document.steps if (cycle := walk(step.id, []))), [])


def _check_step(document: Document, number: int, step: Step) -> Iterator[FieldError]:
    path = f"steps[{number}]"
    yield from _check_job(step.job, f"{path}.job")
    if step.timeout is not None:
        if step.kind not in _TIMED:
            yield FieldError(f"{path}.timeout", f"does not apply to {step.kind} steps")
        elif not seconds_of(step.timeout):
            yield FieldError(f"{path}.timeout", NO_TIMEOUT)
    if step.retries is not None and step.kind not in _RETRIED:
        yield FieldError(f"{path}.retries", f"does not apply to {step.kind} steps")
    if step.sleep is not None and not is_time(step.sleep):
        yield FieldError(f"{path}.sleep", "is neither seconds, nor a duration such as 10m, nor a time, nor a template")
    before = document.ancestors(step.id)
    names = scope_names(document, step)
    for field, value in step.templates.items():
        visible = names - {"item", "index"} if field == "each" else names
        yield from _check_value(value, f"{path}.{field}", visible, before)
    if isinstance(step.if_, str):
        braced = step.if_ if "{{" in step.if_ else f"{{{{ {step.if_} }}}}"
        yield from _check_value(braced, f"{path}.if", names - {"item", "index"}, before)
    if isinstance(step.on_failure, UndoStep):
        yield from _check_undo(step.on_failure, f"{path}.onFailure", names, before | {step.id})


def _check_job(job_type: str | None, path: str) -> Iterator[FieldError]:
    if job_type == ENGINE_RUN:
        yield FieldError(path, f"{ENGINE_RUN} {NOT_A_JOB}")


def _check_undo_kind(undo: UndoStep, path: str) -> Iterator[FieldError]:
    if (undo.job is None) == (undo.workflow is None):
        yield FieldError(path, "needs exactly one of job and workflow")
    yield from _check_job(undo.job, f"{path}.job")


def _check_undo(undo: UndoStep, path: str, names: set[str], before: Set[str]) -> Iterator[FieldError]:
    yield from _check_undo_kind(undo, path)
    yield from _check_value(undo.with_, f"{path}.with", names | {"steps"}, before)


def _check_output(document: Document) -> Iterator[FieldError]:
    if document.output is not None:
        yield from _check_value(
            document.output, "output", {"input", "run", "steps"}, {step.id for step in document.steps}
        )


def _check_value(value: Any, path: str, names: set[str], before: Set[str]) -> Iterator[FieldError]:
    """What is wrong with the templates in a value, and which steps they read without needing them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _check_value(inner, f"{path}.{key}", names, before)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _check_value(inner, f"{path}[{index}]", names, before)
    elif isinstance(value, str):
        wrong = check_template(value, path=path, names=names)
        yield from wrong
        for reference in () if wrong else sorted(references(value)):
            if reference[0] == "steps" and len(reference) > 1 and reference[1] not in before:
                yield FieldError(path, f"reads step {reference[1]!r}, which it does not need")


def scope_names(document: Document, step: Step) -> set[str]:
    """The names a step's templates may use."""
    names = {"input", "run"}
    before = document.ancestors(step.id)
    if before:
        names.add("steps")
    if any(document.step(earlier).kind == "event" for earlier in before):
        names.add("event")
    return names | ({"item", "index"} if step.each is not None else set())


def is_time(value: Seconds) -> bool:
    """Whether a sleep may last so long: a duration, seconds, a time, or a template."""
    if isinstance(value, str) and "{{" in value:
        return True
    if seconds_of(value) is not None:
        return True
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True
