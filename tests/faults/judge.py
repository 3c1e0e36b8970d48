"""Judges a case by the effect log and the database: what was broken, in sentences.

The effect log says what handlers did and when; the database says what was accepted and why something ran again. The laws
hold at every instant: they are checked along the lines of the log, not by counts at the end.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlas.audit.keys import public_keys
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verification.verify import verify
from tests.audit.given import Installation
from tests.faults.effects import Effect
from tests.support import until

# What is late because the machine is busy.
UNSIGNED = ("stale", "unsigned")
SILENT_SECONDS = 120
NO_SEALER = """
select not exists (select from pg_locks l join pg_database d on d.oid = l.database
  where l.locktype = 'advisory' and l.classid = atlas.lock_class('seal')::oid and d.datname = current_database())"""
TWICE = """
select entity_id, string_agg(action, ', ' order by id) as actions from atlas.audit_log
where entity_type = 'job' and action = any ($1) group by entity_id having count(*) > 1"""
ACCEPTED = (
    "JOB_SUCCEEDED",
    "JOB_FAILED",
    "JOB_EXHAUSTED_RETRIES",
    "JOB_POISONED",
    "JOB_CANCELED",
    "WORKFLOW_COMPLETE",
    "EMAIL_SENT",
)


@dataclass(frozen=True)
class Evidence:
    """What is known about a case that has ended."""

    conn: Any
    effects: list[Effect]
    home: Path
    # The address that the program had, by which it finds its keys.
    url: str


Law = Callable[[Evidence], Awaitable[list[str]]]


async def judge(evidence: Evidence, laws: tuple[Law, ...]) -> list[str]:
    """Everything that was broken. The general laws hold for all programs."""
    general = (one_outcome, again_for_a_cause, nothing_starts_offline, nothing_starts_paused, audit_is_whole)
    return [broken for law in (*general, *laws) for broken in await law(evidence)]


async def one_outcome(evidence: Evidence) -> list[str]:
    """A job has at most one accepted outcome, unless an operator had it run again."""
    rows = await evidence.conn.fetch(TWICE, list(ACCEPTED))
    retried = {
        row[0]
        for row in await evidence.conn.fetch("select entity_id from atlas.audit_log where action = 'JOB_RETRIED'")
    }
    return [
        f"job {row['entity_id']} has two outcomes: {row['actions']}" for row in rows if row["entity_id"] not in retried
    ]


async def again_for_a_cause(evidence: Evidence) -> list[str]:
    """A handler starts once for each attempt, and again only after the attempt before was recorded as ended."""
    broken = []
    started: dict[str, list[int]] = defaultdict(list)
    for effect in evidence.effects:
        if effect.what == "start":
            if effect.attempt in started[effect.job_id]:
                broken.append(f"attempt {effect.attempt} of job {effect.job_id} ({effect.kind}) started twice")
            started[effect.job_id].append(effect.attempt)
    again = [job_id for job_id, attempts in started.items() if len(attempts) > 1]
    rows = await evidence.conn.fetch(
        "select job_id::text, attempt_no from atlas.job_attempts where job_id = any ($1::text[]::uuid[])", again
    )
    recorded = {(row["job_id"], row["attempt_no"]) for row in rows}
    for job_id in again:
        for attempt in started[job_id][:-1]:
            if (job_id, attempt) not in recorded:
                broken.append(f"job {job_id} ran again after attempt {attempt}, and no record says why")
    return broken


async def nothing_starts_offline(evidence: Evidence) -> list[str]:
    """Between the return of `offline` and the next `online` no handler starts."""
    closed = [effect.at for effect in evidence.effects if effect.what == "offline returned"]
    opened = [effect.at for effect in evidence.effects if effect.what == "online asked for"]
    return [
        f"job {effect.job_id} ({effect.kind}) started {effect.at - since:.3f} s after offline had returned"
        for since, until in zip(closed, opened, strict=True)
        for effect in evidence.effects
        if effect.what == "start" and since < effect.at < until
    ]


async def nothing_starts_paused(evidence: Evidence) -> list[str]:
    """Between the return of a pause of a job type and its end no job of the type starts."""
    broken, paused = [], dict[str, float]()
    for effect in sorted(evidence.effects, key=lambda one: one.at):
        if effect.what == "pause returned":
            paused[effect.kind] = effect.at
        elif effect.what == "resume asked for":
            paused.pop(effect.kind, None)
        elif effect.what == "start" and effect.kind in paused:
            late = effect.at - paused[effect.kind]
            broken.append(f"job {effect.job_id} ({effect.kind}) started {late:.3f} s after the pause of its type")
    return broken


async def audit_is_whole(evidence: Evidence) -> list[str]:
    """The audit log verifies, and the tables are as it says."""
    # A session whose connection went silent holds the lock of sealers until the server ends it.
    await until(lambda: evidence.conn.fetchval(NO_SEALER), within=SILENT_SECONDS)
    await seal(evidence.conn)
    signed = Installation(evidence.home, evidence.url) if (evidence.home / "keys").exists() else None
    keys = public_keys(signed.settings) if signed else []
    report = await verify(evidence.conn, keys, signed.notes if signed else [])
    findings = [finding for finding in report.findings if finding.kind not in UNSIGNED]
    return [f"audit: {finding.message}" for finding in [*findings, *await cross_check(evidence.conn)]]


def overlaps(effects: list[Effect], kind: str, lost: set[tuple[str, int]]) -> dict[str, int]:
    """How many handlers of a type ran at the same time at most, by their key.

    A kill ends those of its process. An attempt that was recorded as lost is left out: its worker may have been frozen.
    """
    running: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    most: dict[str, int] = defaultdict(int)
    for effect in effects:
        attempt = (effect.job_id, effect.attempt)
        if effect.what == "killed":
            for key, attempts in running.items():
                running[key] = {one: pid for one, pid in attempts.items() if pid != effect.pid}
        elif effect.kind == kind and effect.what == "start" and attempt not in lost:
            running[effect.key][attempt] = effect.pid
            most[effect.key] = max(most[effect.key], len(running[effect.key]))
        elif effect.kind == kind and effect.what == "end":
            running[effect.key].pop(attempt, None)
    return most
