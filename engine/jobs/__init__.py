"""Decides about jobs: enqueue, claim, lease, finish, retry, cancel, under the gate."""

from engine.jobs.admit import admit, enqueue_definition
from engine.jobs.backoff import RetryPolicy, backoff_delay_ms, can_retry
from engine.jobs.cancel import cancel, cancel_many
from engine.jobs.context import JobContext
from engine.jobs.dedupe import make_dedupe_key
from engine.jobs.delete import delete
from engine.jobs.enqueue import Enqueued, enqueue, enqueue_many
from engine.jobs.explain import Explanation, explain
from engine.jobs.find import JobFilter, JobRow, get_job, list_attempts, list_jobs, queue_depth
from engine.jobs.gate import Gate, read_gate, switch
from engine.jobs.lease import heartbeat, reap
from engine.jobs.new_job import SYSTEM_TENANT, NewJob
from engine.jobs.outcomes import ClaimedJob, PermanentError, RetryAfter, Snooze
from engine.jobs.repository import EnqueueJob, JobsRepository
from engine.jobs.retry import retry_dead_letters, retry_many, retry_now
from engine.jobs.turn import Claimant, claim, finish, take_turn
from engine.jobs.types import JobType, job, registered

__all__ = [
    "SYSTEM_TENANT",
    "Claimant",
    "ClaimedJob",
    "EnqueueJob",
    "Enqueued",
    "Explanation",
    "Gate",
    "JobContext",
    "JobFilter",
    "JobRow",
    "JobType",
    "JobsRepository",
    "NewJob",
    "PermanentError",
    "RetryAfter",
    "RetryPolicy",
    "Snooze",
    "admit",
    "backoff_delay_ms",
    "can_retry",
    "cancel",
    "cancel_many",
    "claim",
    "delete",
    "enqueue",
    "enqueue_definition",
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
]
