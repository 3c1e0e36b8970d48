"""Removes secrets from what a handler returned, raised or noted, before its outcome is recorded."""

import traceback

from atlas.engine.jobs.finish import Notes
from atlas.engine.secrets.redact import Redactor
from atlas.errors import AtlasError

LONGEST_TRACE = 8000


def redact_notes(redactor: Redactor, notes: Notes) -> None:
    """Remove secrets from what a handler noted beside its outcome."""
    notes.audit_message = redactor.text(notes.audit_message)
    notes.audit_meta = redactor.value(notes.audit_meta)
    notes.detail = redactor.value(notes.detail)


def redact_error(redactor: Redactor, error: BaseException, notes: Notes) -> BaseException:
    """Return an error without secrets, and keep its redacted stack in the attempt's details.

    An error of Atlas keeps its class, because the class decides what becomes of the job. Any other error is replaced
    by one of the same name, because its class may build its message from more than its arguments.
    """
    redact_notes(redactor, notes)
    if isinstance(error, AtlasError):
        error.message, error.remedy = redactor.text(error.message), redactor.text(error.remedy)
        error.args = tuple(redactor.value(list(error.args)))
        return error
    stack = "".join(traceback.format_exception(error))
    notes.detail.setdefault("error_text", redactor.text(stack)[-LONGEST_TRACE:])
    namesake: type[Exception] = type(type(error).__name__, (Exception,), {})
    return namesake(redactor.text(str(error)))
