"""How an attempt at a mail ends: whether the mail may be out, and whether the job is tried again."""

from collections.abc import Sequence

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
from atlas.errors import AtlasError
from atlas.workers.email.providers import MaybeSent, NotSent


class MailNotSent(AtlasError):
    """The mail is not out; it is tried again by the job's policy."""


class OutcomeUnknown(AtlasError):
    """The mail may be out. The next attempt asks the provider before it does anything else."""

    outcome = "unknown"


class UnknownUntil(RetryAfter):
    """The mail may be out, and the provider asked not to be called for a while."""

    outcome = "unknown"


# Errors that themselves say whether the mail may be out.
OUTCOMES = (MailNotSent, OutcomeUnknown, RetryAfter, PermanentError, Snooze)


def not_taken(failures: Sequence[NotSent], *, unsure: bool) -> AtlasError:
    """No provider took it. It is tried again if one of them may take it later, as soon as the first of those may.

    `unsure`: an earlier attempt may have sent it, and the operator who ordered it again knows that.
    """
    message = " ".join(str(failure) for failure in failures)
    passing = [failure for failure in failures if not failure.permanent]
    if not passing:
        return unknown(MailNotSent(message)) if unsure else PermanentError(message)
    waits = [failure.retry_after for failure in passing if failure.retry_after]
    if len(waits) == len(passing):
        return (UnknownUntil if unsure else RetryAfter)(min(waits), message)
    return (OutcomeUnknown if unsure else MailNotSent)(message)


def still_open(failure: NotSent, *, unsure: bool) -> AtlasError:
    """This request was refused, but an earlier one may have succeeded, or the refusal could not be noted."""
    if unsure and failure.permanent:
        return unknown(failure)
    return maybe_sent(MaybeSent(failure.message, retry_after=failure.retry_after))


def maybe_sent(found: MaybeSent) -> AtlasError:
    """The next attempt asks the provider. A failure that the provider itself reported is not called unknown."""
    if found.retry_after:
        return (RetryAfter if found.responded else UnknownUntil)(found.retry_after, found.message)
    return (MailNotSent if found.responded else OutcomeUnknown)(found.message)


def unknown(cause: AtlasError) -> PermanentError:
    """Nothing can find out whether the mail is out: the job fails, and an operator decides."""
    return PermanentError(
        f"{cause.message} It is not known whether the mail was sent.",
        remedy="Ask the recipient or look at the provider; a retry of this job sends it again.",
        outcome="unknown",
    )


def note_unknown(ctx: AttemptContext, **where: str) -> None:
    """The attempt is stopped while a provider may have the mail: note it in the attempt's row and its event."""
    ctx.notes.detail["outcome"] = "unknown"
    ctx.notes.audit_meta.update({**where, "outcome": "unknown"})
