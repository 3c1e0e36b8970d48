"""What applications may write with the typed client, and the verb for everything else.

A row of Atlas is more than its columns: its change has an event in the audit log, a claim counts an attempt and starts
a lease, an outcome wakes who waits for it. A bare insert or update would be half of that. So a new job is enqueued, a
few columns of a job may be changed, and every other write is refused before anything is written.
"""

from collections.abc import Mapping
from typing import Any

from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import Refused
from atlas.generated.errors import PrismaError
from atlas.generated.fields import Json
from atlas.models.rows import prisma_name
from atlas.prisma_client.compile.draft import as_dict, scalar
from atlas.prisma_client.errors import missing_value
from atlas.prisma_client.schema import Model
from atlas.prisma_client.values import as_timestamp, codec_of, encode

WRITES = frozenset({"create", "create_many", "update", "update_many", "upsert", "delete", "delete_many"})

_CLAIM = (
    "`JobsRepository().claim(conn, limit=1)` claims jobs under the gate and the limits, with an attempt and a lease; "
    "`atlas worker` does it for handlers."
)
_FINISH = "`JobsRepository.mark_success` and `mark_failure` record the outcome of a job that was claimed."
_CANCEL = "`cancel(conn, job_id, actor=…)` cancels a job, also one that runs."
_RETRY = "`atlas jobs retry` puts a failed or canceled job back; a claimed one ends by `JobsRepository.mark_failure`."
_LATER = "A handler raises `RetryAfter` or `Snooze`; a new job is due at the `scheduledFor` of its `create`."
_LIMITED = "Atlas sets it by the limits of the job type and of the tenant: docs/limits.md."
_ANEW = "It is the same for the whole life of a job: cancel this one and create another."

# The columns of a job that a caller may change.
CHANGEABLE = frozenset({"priority", "maxRetries", "timeoutSeconds"})
_STATUSES = {"running": _CLAIM, "succeeded": _FINISH, "failed": _FINISH, "canceled": _CANCEL, "queued": _RETRY}
_COLUMNS = {
    **dict.fromkeys(("status", "attemptCount", "lostCount", "claimedBy", "leaseExpiresAt", "startedAt"), _CLAIM),
    **dict.fromkeys(("output", "error", "retryCount", "finishedAt", "deadLetteredAt", "costCents"), _FINISH),
    **dict.fromkeys(("cancelRequestedAt", "cancelRequestedBy"), _CANCEL),
    **dict.fromkeys(("nextRetryAt", "scheduledFor", "dueAt"), _LATER),
    **dict.fromkeys(("limitId", "limitKey", "rateId", "heldBy", "hasSlot"), _LIMITED),
    "retriesChosen": "Naming `maxRetries` sets it.",
    "progress": "A handler reports it: `await ctx.progress(40)`.",
}
# The columns that a new job has before anything has happened to it. Naming them with these values is harmless.
_UNTOUCHED = {
    "status": "queued",
    "output": {},
    "error": {},
    "careful": False,
    **dict.fromkeys(("retryCount", "attemptCount", "lostCount", "costCents"), 0),
}
_SET_BY_ATLAS = ("definition_id", "parent_run_id", "group_id")
# What a caller chooses for a new job, by the name in `NewJob`.
_CHOSEN = {
    **{prisma_name(name): name for name in NewJob.__slots__ if name not in _SET_BY_ATLAS},
    "scheduledFor": "run_at",
    "nextRetryAt": "run_at",
}

_OTHER = "Atlas writes it; `atlas --help` and docs/api.md show by what."
_SEALS = "Atlas seals the audit log by itself: `atlas audit`."
_COUNTS = "Atlas counts by itself: `atlas usage`."
_RUNS = "`atlas workflow run`, `cancel`, `retry` and `fork` change runs."
_EVENTS = "`record(conn, Event(…))` of `atlas.audit` adds an event. Nothing changes or removes one."
VERBS = {
    "Tenant": "`atlas tenant add`, `edit` and `remove` change tenants.",
    "ApiToken": "`atlas token add` and `atlas token revoke` change tokens.",
    "EnqueueGrant": "`atlas grant enqueue` and `atlas grant revoke` change grants.",
    "Session": "Logging in and out opens and ends sessions.",
    **dict.fromkeys(("ShownJob", "ListedJob"), "It is a view: create and update `job`."),
    **dict.fromkeys(("JobAttempt", "JobRun"), _CLAIM),
    **dict.fromkeys(("JobLimit", "LimitEvent"), _LIMITED),
    "JobSecret": 'Mark the field of the input with `"x-secret": true`, and create the job with it.',
    "JobType": "A worker publishes what its `@job` says when it starts.",
    "JobDefinition": "`atlas definition add`, `edit` and `disable` change definitions.",
    **dict.fromkeys(("JobWorker", "WorkerKey"), "`atlas worker` registers itself."),
    "SystemState": "`atlas online`, `atlas offline` and `atlas engine` switch.",
    **dict.fromkeys(("AuditLog", "AuditEntry"), _EVENTS),
    **dict.fromkeys(("AuditEpoch", "AuditSeal", "AuditSealTenant", "AuditCheckpoint", "AuditPruned"), _SEALS),
    "AuditPrivate": "`record(conn, Event(…))` of `atlas.audit` stores it, and `atlas audit erase` removes it.",
    **dict.fromkeys(("MailLedger", "MailPace", "MailSlot"), "Create a job of the type EMAIL_SEND."),
    "Effect": "A handler makes it by `ctx.effect`; `atlas effects settle` settles a doubt.",
    "Host": "`atlas host add` adds a host.",
    "ServerInstance": "`atlas host add --instance` and `atlas host instance` change server instances.",
    "Event": "`publish_event(conn, …)` publishes an event and wakes those that wait for it.",
    "Workflow": "`atlas workflow save`, `enable` and `disable` change workflows.",
    "Intent": "`request_workflow(conn, …)` asks for a run.",
    **dict.fromkeys(("WorkflowRun", "WorkflowRunState", "WorkflowStep"), _RUNS),
    "Approval": "`atlas workflow approve` decides.",
    "PolicyRule": "`atlas workflow policy add` and `remove` change rules.",
    "JobTrigger": "`atlas trigger add`, `edit` and `remove` change triggers.",
    "TriggerFire": "`atlas trigger fire` fires a trigger.",
    **dict.fromkeys(("RecurringJob", "RecurringRun"), "A function becomes recurring by `Recurring`."),
    **dict.fromkeys(("UsageHourly", "UsageCost", "JobCount", "JobTotal", "JobSeries"), _COUNTS),
    "Webhook": "`atlas webhooks add` and `remove` change webhooks.",
    "InboundHook": "`atlas hooks add` and `remove` change hooks.",
    "JobGroup": "`enqueue_group(conn, jobs, then=…)` makes a group.",
    "BulkAction": "`POST /jobs/bulk` begins an action on many jobs.",
    "IdempotencyKey": "A request's `Idempotency-Key` makes it.",
}


class WriteRefused(Refused, PrismaError):
    """A write that would be half of a change; the remedy names the whole one."""


def check_write(model: Model, method: str, arguments: Mapping[str, Any]) -> None:
    """Let pass what applications may write: new jobs, and a few columns of a job."""
    if model.name != "Job":
        raise WriteRefused(f"The typed client does not write {model.table}.", remedy=VERBS.get(model.name, _OTHER))
    match method:
        case "delete" | "delete_many":
            raise WriteRefused("The typed client does not delete jobs.", remedy="`atlas jobs delete` does.")
        case "upsert":
            raise WriteRefused(
                "The typed client does not upsert jobs.",
                remedy="`create` with a `dedupeKey` returns the active job that holds it, if there is one.",
            )
        case "update" | "update_many":
            for name, value in as_dict(arguments.get("data"), "Job.data").items():
                if name not in CHANGEABLE:
                    raise WriteRefused(f"The typed client does not change Job.{name}.", remedy=_way(name, value))


def with_choice(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an update. Retries that it names are the job's own from then on."""
    data = arguments.get("data")
    if not isinstance(data, dict) or "maxRetries" not in data:
        return arguments
    return arguments | {"data": data | {"retriesChosen": True}}


def _way(name: str, value: Any) -> str:
    if name != "status":
        return _COLUMNS.get(name, _ANEW)
    target = value.get("set") if isinstance(value, dict) else value
    return next((verb for status, verb in _STATUSES.items() if status == target), _CLAIM)


def chosen(model: Model, data: Any) -> dict[str, Any]:
    """What the data of a new job chooses, for `NewJob`; with the name of who creates it as `created_by`."""
    values: dict[str, Any] = {}
    for name, value in as_dict(data, "Job.data").items():
        relation = model.fields[name].relation if name in model.fields else None
        if relation is not None:
            raise WriteRefused(f"A new job has no {name}.", remedy=VERBS.get(relation.target, _OTHER))
        field = scalar(model, name)
        if field.type == "Json" and isinstance(value, dict):
            value = Json(value)
        plain = value.data if isinstance(value, Json) else value
        if plain is None and not field.required:
            continue
        sent = encode(codec_of(field), value, field.label)
        if field.type == "DateTime":
            sent = as_timestamp(value)
        if name in _CHOSEN or name == "createdBy":
            chosen_as, choice = _CHOSEN.get(name, "created_by"), plain if field.type == "Json" else sent
            if values.setdefault(chosen_as, choice) != choice:
                raise WriteRefused(f"A new job has one time: {name} is another.", remedy="Name `scheduledFor` alone.")
        elif name not in _UNTOUCHED or plain != _UNTOUCHED[name]:
            raise WriteRefused(f"A new job does not take {name}.", remedy=_COLUMNS.get(name, "Atlas sets it."))
    for name in ("tenantId", "jobType"):
        if _CHOSEN[name] not in values:
            raise missing_value(f"Job.{name}")
    return values
