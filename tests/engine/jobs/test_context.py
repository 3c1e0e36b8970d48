"""JobContext offers handlers what the pages describe, and nothing of the worker's own."""

from atlas import JobContext
from atlas.engine.jobs.handlers.context import AttemptContext


def test_a_context_completes_what_handlers_use_and_no_internals():
    assert [name for name in dir(JobContext) if not name.startswith("_")] == [
        *(
            "attempt",
            "audit",
            "cancelled",
            "connection",
            "cost",
            "effect",
            "effect_from_thread",
            "idempotency_key",
            "job_id",
            "log",
            "output",
            "pool",
        ),
        *("progress", "progress_from_thread", "tenant_id", "transaction", "worker_id"),
    ]


def test_a_worker_fills_in_all_of_it():
    assert [name for name in vars(JobContext) if not name.startswith("_") and name not in vars(AttemptContext)] == []
