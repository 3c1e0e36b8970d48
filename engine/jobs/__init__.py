"""Jobs and the verbs that move them: enqueue, claim, finish, retry, cancel, delete."""

from atlas.engine.jobs.backoff import RetryPolicy, backoff_delay_ms, can_retry
from atlas.engine.jobs.cancel import cancel, cancel_many
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim
from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.delete import delete
from atlas.engine.jobs.enqueue import Enqueued, enqueue, enqueue_many
from atlas.engine.jobs.explain import Explanation, explain
from atlas.engine.jobs.find import JobFilter, JobRow, get_job, list_attempts, list_jobs, queue_depth
from atlas.engine.jobs.finish import finish, take_turn
from atlas.engine.jobs.gate import Gate, read_gate, switch, wait_until_closed
from atlas.engine.jobs.lease import heartbeat, reap
from atlas.engine.jobs.new_job import SYSTEM_TENANT, NewJob, make_dedupe_key
from atlas.engine.jobs.retry import retry_dead_letters, retry_many, retry_now
from atlas.engine.jobs.typed_job import job
from atlas.engine.jobs.types import JobType, registered
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze

__all__ = [
    "SYSTEM_TENANT",
    "Claimant",
    "ClaimedJob",
    "Enqueued",
    "Explanation",
    "Gate",
    "JobContext",
    "JobFilter",
    "JobRow",
    "JobType",
    "NewJob",
    "PermanentError",
    "RetryAfter",
    "RetryPolicy",
    "Snooze",
    "backoff_delay_ms",
    "can_retry",
    "cancel",
    "cancel_many",
    "claim",
    "delete",
    "enqueue",
    "enqueue_many",
    "explain",
    "finish",
    "get_job",
    "heartbeat",
    "job",
    "list_attempts",
    "list_jobs",
    "make_dedupe_key",
    "queue_depth",
    "read_gate",
    "reap",
    "registered",
    "retry_dead_letters",
    "retry_many",
    "retry_now",
    "switch",
    "take_turn",
    "wait_until_closed",
]
