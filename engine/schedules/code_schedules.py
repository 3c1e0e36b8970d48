"""Schedules that stand beside the code: what `@job(cron=…)` and `@workflow(cron=…)` of this process ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Target = Literal["job_type", "workflow"]


@dataclass(frozen=True, slots=True)
class CodeSchedule:
    """When a job type or a workflow starts, and for which tenant. `module` is where the code says so."""

    kind: Target
    name: str
    cron: str
    # None: the tenant's.
    timezone: str | None
    tenant: str
    module: str


_declared: dict[tuple[Target, str], CodeSchedule] = {}


def declare_schedule(
    kind: Target, name: str, cron: str | None, *, timezone: str | None, tenant: str | None, module: str
) -> None:
    """Note what a decorator says; without a `cron`, that there is no schedule (any more)."""
    _declared.pop((kind, name), None)
    if cron is not None:
        _declared[kind, name] = CodeSchedule(kind, name, cron, timezone, tenant or "system", module)


def declared_schedules() -> Mapping[tuple[Target, str], CodeSchedule]:
    """The schedules of this process, by what they start."""
    return _declared
