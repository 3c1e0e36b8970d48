"""Atlas: a Postgres-backed, multi-tenant job queue and durable workflow runner.

What a project needs is imported from here: `from atlas import job, JobContext, enqueue`. Each name is loaded when it is
first used, so that the client and `atlas --help` do not load the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from atlas.version import __version__ as __version__

if TYPE_CHECKING:
    from atlas.actors import Actor
    from atlas.database import open_pool
    from atlas.engine.effects.batch_effect import batch_effect
    from atlas.engine.effects.effect_call import OpenEffect
    from atlas.engine.effects.outcomes import CannotTell, Done, EffectRefused, NotDone
    from atlas.engine.enqueue import enqueue, enqueue_group, enqueue_many
    from atlas.engine.jobs.actions.cancel import cancel
    from atlas.engine.jobs.backoff import backoff_delay_ms, can_retry
    from atlas.engine.jobs.enqueue import Enqueued
    from atlas.engine.jobs.handlers.around_job import around_job
    from atlas.engine.jobs.handlers.context import JobContext
    from atlas.engine.jobs.handlers.typed_job import JobFunction, job
    from atlas.engine.jobs.new_jobs.new_job import NewJob, NewJobOptions, make_dedupe_key
    from atlas.engine.jobs.prisma.prisma_client import AtlasPrisma
    from atlas.engine.jobs.prisma.prisma_rules import WriteRefused
    from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
    from atlas.engine.repository import EnqueueJob, JobsRepository
    from atlas.engine.workflows.errors import StepFailed
    from atlas.engine.workflows.events import publish_event
    from atlas.engine.workflows.intents import request_workflow
    from atlas.engine.workflows.registry import registered_workflows, workflow
    from atlas.engine.workflows.run_context import Run
    from atlas.engine.workflows.steps.replay import replay
    from atlas.errors import AtlasError
    from atlas.scheduler.recurring import Recurring, at_start
    from atlas.scheduler.recurring_run import RecurringContext
    from atlas.workers.email import know_email
    from atlas.workers.http_call import know_http_call
    from atlas.workers.lifespan import lifespan

__all__ = [
    "Actor",
    "AtlasError",
    "AtlasPrisma",
    "CannotTell",
    "Done",
    "EffectRefused",
    "EnqueueJob",
    "Enqueued",
    "JobContext",
    "JobFunction",
    "JobsRepository",
    "NewJob",
    "NewJobOptions",
    "NotDone",
    "OpenEffect",
    "PermanentError",
    "Recurring",
    "RecurringContext",
    "RetryAfter",
    "Run",
    "Snooze",
    "StepFailed",
    "WriteRefused",
    "around_job",
    "at_start",
    "backoff_delay_ms",
    "batch_effect",
    "can_retry",
    "cancel",
    "enqueue",
    "enqueue_group",
    "enqueue_many",
    "job",
    "know_email",
    "know_http_call",
    "lifespan",
    "make_dedupe_key",
    "open_pool",
    "publish_event",
    "registered_workflows",
    "replay",
    "request_workflow",
    "workflow",
]

_HOMES = {
    "atlas.actors": ("Actor",),
    "atlas.database": ("open_pool",),
    "atlas.engine.effects.batch_effect": ("batch_effect",),
    "atlas.engine.effects.effect_call": ("OpenEffect",),
    "atlas.engine.effects.outcomes": ("CannotTell", "Done", "EffectRefused", "NotDone"),
    "atlas.engine.enqueue": ("enqueue", "enqueue_group", "enqueue_many"),
    "atlas.engine.jobs.handlers.around_job": ("around_job",),
    "atlas.engine.jobs.backoff": ("backoff_delay_ms", "can_retry"),
    "atlas.engine.jobs.actions.cancel": ("cancel",),
    "atlas.engine.jobs.handlers.context": ("JobContext",),
    "atlas.engine.jobs.enqueue": ("Enqueued",),
    "atlas.engine.jobs.new_jobs.new_job": ("NewJob", "NewJobOptions", "make_dedupe_key"),
    "atlas.engine.jobs.handlers.typed_job": ("JobFunction", "job"),
    "atlas.engine.jobs.verdicts": ("PermanentError", "RetryAfter", "Snooze"),
    "atlas.engine.jobs.prisma.prisma_client": ("AtlasPrisma",),
    "atlas.engine.jobs.prisma.prisma_rules": ("WriteRefused",),
    "atlas.engine.repository": ("EnqueueJob", "JobsRepository"),
    "atlas.engine.workflows.errors": ("StepFailed",),
    "atlas.engine.workflows.events": ("publish_event",),
    "atlas.engine.workflows.intents": ("request_workflow",),
    "atlas.engine.workflows.registry": ("registered_workflows", "workflow"),
    "atlas.engine.workflows.steps.replay": ("replay",),
    "atlas.engine.workflows.run_context": ("Run",),
    "atlas.errors": ("AtlasError",),
    "atlas.scheduler.recurring": ("Recurring", "at_start"),
    "atlas.scheduler.recurring_run": ("RecurringContext",),
    "atlas.workers.email": ("know_email",),
    "atlas.workers.http_call": ("know_http_call",),
    "atlas.workers.lifespan": ("lifespan",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

# Names of an earlier version, which work and warn until the next minor version: RELEASING.md.
_RENAMED = {"EnqueueTerms": "NewJobOptions"}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name in _RENAMED:
        from atlas.deprecation import warn_renamed

        warn_renamed(f"atlas.{name}", f"atlas.{_RENAMED[name]}")
        name = _RENAMED[name]
    if name not in _HOME_OF:
        raise AttributeError(f"module 'atlas' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
