"""The state of what grants power or decides, as a digest in each of its events.

`record` adds it to the event as `state`, in the transaction of the change, and null where the entity is gone. So the
last event of an entity says what its row must be, column by column, and the cross-check finds every other row.
"""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.ids import as_id

STATE_OF = statement("audit/sql/state_of.sql")

# Kinds of entities whose events have a digest, with their tables. The SQL function state_kinds says how each is found.
STATE_KINDS = {
    "tenant": "tenants",
    "token": "api_tokens",
    "session": "sessions",
    "enqueue_grant": "enqueue_grants",
    "approval": "approvals",
    "policy_rule": "policy_rules",
    "definition": "job_definitions",
    "workflow": "workflows",
    "trigger": "job_triggers",
    "host": "hosts",
    "server_instance": "server_instances",
    "webhook": "webhooks",
    "inbound_hook": "inbound_hooks",
    "pause": "pauses",
    "recurring": "recurring_jobs",
    "group": "job_groups",
    "bulk_action": "bulk_actions",
    "job_type": "job_types",
}
# The others have a UUID.
_NAMED_BY_TEXT = ("workflow", "recurring", "job_type")

# Tables that the cross-check compares in another way than by a digest, and those that it leaves out, with the reason.
COMPARED_OTHERWISE = {
    "jobs": "their status, type, tenant, creator, contents and cost with their events",
    "job_attempts": "that none of a job's attempts is missing",
    "mail_ledger": "that a mail that a program of the release before sent has its entry",
    "effects": "the state and the reference of each with its last event",
    "workflow_steps": "the outputs of the steps of a run with the digest in the event of its end",
    "intents": "who requested each with INTENT_REQUESTED",
    "events": "who published each with EVENT_PUBLISHED",
    "recurring_runs": "the outcome of those that did not succeed with RECURRING_FAILED",
    "system_state": "the switches with the events of switching them; its other keys are notes of Atlas's programs",
}
_THE_LOG = "the audit log itself: verification walks through it"
_COUNTED = "counted from jobs and attempts, and counted again where it differs"
_PACE = "how far a limit is spent: it changes with every start"
_PROGRAMS = "which programs run, renewed every few seconds"
NOT_COMPARED = {
    **dict.fromkeys(("audit_log", "audit_seal", "audit_seal_tenant", "audit_checkpoint", "audit_epoch"), _THE_LOG),
    **dict.fromkeys(("audit_pruned", "audit_private", "audit_moved"), _THE_LOG),
    **dict.fromkeys(("usage_hourly", "usage_costs", "job_counts", "job_totals", "job_series"), _COUNTED),
    **dict.fromkeys(("dead_letters", "dead_letter_causes"), _COUNTED),
    **dict.fromkeys(("job_limits", "limit_events", "counted_jobs", "tenant_shares", "share_clock"), _PACE),
    **dict.fromkeys(("mail_pace", "mail_slots"), _PACE),
    **dict.fromkeys(("job_workers", "running_programs", "scheduler_leader"), _PROGRAMS),
    "worker_keys": "the keys of workers, each for the life of one process",
    "job_secrets": "encrypted, and bound to their jobs: one that was changed or moved cannot be decrypted",
    "bulk_previews": "sets of jobs that someone looked at; an action has the digest of its set in its event",
    "idempotency_keys": "responses that are repeated for a day, and decide nothing",
    "workflow_runs": "where a run is, which changes with every step; its job and the outputs of its steps are compared",
    "trigger_fires": "the history of triggers; what a firing enqueued has its own events",
    "history_changes": "which parts of history changed, for backups, and what a drop subtracts; the jobs are compared",
    "history_bounds": "where lists look for jobs in history; the jobs themselves are compared",
    "history_contents": "where lists look for jobs in history, and what a drop counts; the jobs are compared",
    "_prisma_migrations": "`atlas migrate` compares it with the files",
}


def has_state(kind: str, id: str) -> bool:
    """Whether the events of this entity have a digest: not for a kind without one, nor for an id that is none."""
    return kind in STATE_KINDS and (kind in _NAMED_BY_TEXT or as_id(id) is not None)


async def state_of(conn: Connection, kind: str, id: str, tenant_id: UUID | None) -> dict[str, str | None]:
    """What an event of this entity adds to its meta: nothing for a kind without a digest, or for an id that is none."""
    if not has_state(kind, id):
        return {}
    return {"state": await fetch_value(conn, STATE_OF, kind=kind, id=id, tenant_id=tenant_id)}
