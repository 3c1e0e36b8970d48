"""The names of the events that a tenant can subscribe to."""

from collections.abc import Sequence

from atlas.errors import FieldError

# What each means is in docs/webhooks.md; `webhook_event` in the database finds the name of an audit row.
EVENTS = (
    *("job.created", "job.succeeded", "job.failed", "job.canceled", "job.retry_scheduled", "job.retried"),
    *("run.requested", "run.blocked", "run.created", "run.succeeded", "run.failed", "run.canceled"),
    *("run.retry_scheduled", "run.retried"),
    *("approval.requested", "approval.decided"),
)
PATTERNS = (*EVENTS, *dict.fromkeys(f"{name.partition('.')[0]}.*" for name in EVENTS), "*")


def check_events(events: Sequence[str]) -> list[FieldError]:
    """What is wrong with a list of names: exact ones, all of a kind such as `job.*`, or `*`."""
    if not events:
        return [FieldError("events", "is empty")]
    return [
        FieldError(f"events.{nth}", f"is not one of {', '.join(PATTERNS)}")
        for nth, name in enumerate(events)
        if name not in PATTERNS
    ]
