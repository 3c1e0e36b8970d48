"""The other names of fields and statuses: those of callers that come from another job system.

The only table of them. Request bodies, the query of lists, the filters of jobs and the OpenAPI description read it, and
docs/coming-from.md shows it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

# By Atlas's name. `Model.field` holds for one model of the API alone.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "job_type": ("type", "jobType"),
    "definition_key": ("definitionKey",),
    "payload": ("input",),
    "scheduled_for": ("run_at", "runAt", "scheduledFor"),
    "max_retries": ("maxRetries", "max_attempts", "maxAttempts"),
    "dedupe_key": ("dedupeKey",),
    "correlation_id": ("correlationId",),
    "timeout_seconds": ("timeoutSeconds",),
    "host_id": ("hostId",),
    "server_instance_id": ("serverInstanceId",),
    "duration_ms": ("durationMs",),
    "error": ("errorMessage",),
    "log_ref": ("logRef",),
    "ResultBody.status": ("type",),
}
# They count the first attempt too.
ONE_MORE = frozenset({"max_attempts", "maxAttempts"})
# Each stands for one or more of Atlas's statuses of a job.
STATUSES: Mapping[str, tuple[str, ...]] = {
    "success": ("succeeded",),
    "cancelled": ("canceled",),
    "scheduled": ("waiting",),
    "pending": ("queued", "waiting"),
}


class SynonymConflict(ValueError):
    """A value was sent twice, under two names, and differs."""

    def __init__(self, name: str, field: str) -> None:
        super().__init__(f"{name} is a synonym of {field}, which was sent with another value")
        self.name = name


def synonyms_of(fields: Iterable[str], model: str = "") -> dict[str, str]:
    """The synonyms of these fields, each with the field it stands for. A field's own name is never a synonym."""
    own = dict.fromkeys(fields)
    synonyms = {name: field for field in own for name in (*FIELDS.get(field, ()), *FIELDS.get(f"{model}.{field}", ()))}
    return {name: field for name, field in synonyms.items() if name not in own}


def by_own_names(values: Mapping[str, Any], synonyms: Mapping[str, str]) -> dict[str, Any]:
    """The values under Atlas's names. Raises SynonymConflict where two names of a field have different values."""
    renamed = {name: value for name, value in values.items() if name not in synonyms}
    for name, value in values.items():
        if name in synonyms:
            field = synonyms[name]
            meant = value - 1 if name in ONE_MORE and type(value) in (int, float) else value
            if renamed.setdefault(field, meant) != meant:
                raise SynonymConflict(name, field)
    return renamed


def own_statuses(statuses: Collection[str]) -> tuple[str, ...]:
    """Statuses of jobs under Atlas's names, each once."""
    return tuple(dict.fromkeys(own for status in statuses for own in STATUSES.get(status, (status,))))
