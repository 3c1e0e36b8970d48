"""Pauses: nothing of a tenant, job type, definition, workflow, host or trigger starts until it is resumed.

A pause is written as the gate is switched: under the gate's lock, so that no claim comes between. Claims leave out what
is paused. A worker that hears of a new pause starts nothing more that it claimed before, gives it back and confirms
that; what it claims from then on is not paused. See `start_right`.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.etags import Precondition, Stale, require_match
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.engine.jobs.switches.gate import check_bounds, under_gate_lock, wait_until_confirmed
from atlas.errors import FieldError, InvalidInput, NotFound, Refused
from atlas.models.rows import from_row, from_rows
from atlas.models.system import Pause, PauseKind

PAUSE = statement("engine/jobs/switches/sql/pause.sql")
RESUME = statement("engine/jobs/switches/sql/resume.sql")
PAUSES = statement("engine/jobs/switches/sql/pauses.sql")
IN_FORCE = statement("engine/jobs/switches/sql/pause_in_force.sql")
TARGETS = statement("engine/jobs/switches/sql/pause_targets.sql")
CONFIRM = statement("engine/jobs/switches/sql/pause_confirm.sql")
CONFIRMED = statement("engine/jobs/switches/sql/pause_confirmed.sql")
END = statement("engine/jobs/switches/sql/end_pauses.sql")
RESUME_RUNS = statement("engine/jobs/switches/sql/resume_runs.sql")

# What only operators pause: it is no tenant's own.
SHARED_KINDS: tuple[PauseKind, ...] = ("type", "definition")
# How many paused runs become due in one statement.
RUNS_AT_ONCE = 1000


async def pause(
    conn: Connection,
    kind: PauseKind,
    name: str,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    reason: str | None = None,
    until: timedelta | None = None,
    if_match: Precondition | None = None,
    is_new: bool = False,
) -> Pause:
    """Pause a target. Once this has committed, no claim takes anything of it; enqueueing goes on.

    What was claimed before may still start, until `wait_until_paused` has returned. `name` is a key, or the slug, name,
    label or id of a tenant, host or trigger. With a tenant it is the tenant's own; a workflow is paused for it alone.
    A pause that is there is changed, unless it is to be `is_new`.
    """
    check_bounds("The pause", reason, until)
    target, owner = await _find_target(conn, kind, name, tenant_id)
    with refusals():
        async with under_gate_lock(conn, actor=actor):
            if if_match is not None or is_new:
                held = await _find(conn, await fetch_value(conn, IN_FORCE, kind=kind, target=target, tenant_id=owner))
                require_match(held, if_match, "pause of the", f"{kind} {name}")
                if is_new and held is not None:
                    raise Stale(kind, name, "is paused already")
            row = await fetch_value(
                conn,
                PAUSE,
                kind=kind,
                target=target,
                tenant_id=owner,
                reason=reason,
                seconds=None if until is None else until.total_seconds(),
                **actor.arguments(),
            )
    if row is None:
        raise Refused("Atlas was never brought online: nothing starts.", remedy="Bring it online with `atlas online`.")
    return from_row(Pause, await fetch_row(conn, PAUSES, id=row, tenant_id=tenant_id))


async def resume(
    conn: Connection,
    pause_id: UUID,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    reason: str | None = None,
    if_match: Precondition | None = None,
) -> Pause:
    """End a pause, and return what it was. A tenant ends those of its own."""
    check_bounds("The end of the pause", reason, None)
    row = await fetch_row(conn, PAUSES, id=pause_id, tenant_id=tenant_id)
    if row is None or (tenant_id is not None and row["tenant_id"] != tenant_id):
        raise NotFound("pause", pause_id, remedy="`atlas pauses` lists them.")
    with refusals():
        async with under_gate_lock(conn, actor=actor):
            if if_match is not None:
                require_match(await _find(conn, pause_id), if_match, "pause of the", f"{row['kind']} {row['name']}")
            await fetch(conn, RESUME, id=pause_id, reason=reason, **actor.arguments())
    return from_row(Pause, row)


async def list_pauses(conn: Queryable, *, tenant_id: UUID | None = None) -> list[Pause]:
    """The pauses in force, oldest first: all, or those that concern a tenant."""
    rows = await conn.fetch(PAUSES.sql, *PAUSES.bind({"id": None, "tenant_id": tenant_id}))
    return from_rows(Pause, rows)


def named_pause(pauses: Sequence[Pause], kind: PauseKind, name: str, *, is_for_one: bool) -> Pause:
    """The pause of what this name means. A workflow may be paused for one tenant and for all: they are two pauses."""
    named = [pause for pause in pauses if pause.kind == kind and name in (pause.name, pause.target)]
    if kind == "workflow":
        named = [pause for pause in named if (pause.tenant_id is not None) == is_for_one]
    if kind == "type":
        named = [pause for pause in pauses if pause.kind == kind and pause.target == _canonical(name)]
    if not named:
        raise NotFound("pause of the", f"{kind} {name}", remedy="`atlas pauses` lists them.")
    if len(named) > 1:
        raise InvalidInput("The command", [FieldError("TARGET", f"{name!r} matches several; use an id")])
    return named[0]


async def wait_until_paused(conn: Connection, paused: Pause) -> Pause:
    """Wait until nothing starts that was claimed before this pause. Call it when the pause has committed.

    Returns when every worker has confirmed that and what was given to hosts and remote workers has started, and after
    two seconds at the latest: then the right of the others to start has lapsed.
    """
    return await wait_until_confirmed(conn, CONFIRMED, paused, id=paused.id, version=paused.version)


async def confirm_paused(conn: Connection, worker_id: str, version: int) -> None:
    """Confirm for a worker that it starts nothing that it claimed before the pauses of this version."""
    await fetch(conn, CONFIRM, worker=worker_id, version=version)


def pauses_version(gate_text: str | None) -> int:
    """The version of the pauses by the JSON of the gate's row; 0 while there is none."""
    return 0 if gate_text is None else orjson.loads(gate_text).get("pauses", 0)


async def end_pauses(conn: Connection) -> int:
    """End the pauses that have expired, and make the runs of ended pauses due. Returns how many pauses ended."""
    ended: int = await fetch_value(conn, END)
    while await fetch_value(conn, RESUME_RUNS, limit=RUNS_AT_ONCE) == RUNS_AT_ONCE:
        pass
    return ended


async def _find(conn: Connection, pause_id: UUID | None) -> Pause | None:
    """A pause in force, or None."""
    row = None if pause_id is None else await fetch_row(conn, PAUSES, id=pause_id, tenant_id=None)
    return None if row is None else from_row(Pause, row)


async def _find_target(conn: Connection, kind: PauseKind, name: str, tenant_id: UUID | None) -> tuple[str, UUID | None]:
    if tenant_id is not None and kind in SHARED_KINDS:
        reason = f"is not one of a tenant: a {kind} is paused for all tenants"
        raise InvalidInput("The pause", [FieldError("kind", reason)])
    canonical_name = _canonical(name) if kind == "type" else name
    rows = await fetch(conn, TARGETS, kind=kind, name=canonical_name, tenant_id=tenant_id)
    if not rows:
        raise NotFound({"type": "job type"}.get(kind, kind), name)
    if len(rows) > 1:
        raise InvalidInput("The pause", [FieldError("target", f"{name!r} matches several; use an id")])
    return rows[0]["target"], rows[0]["tenant_id"]


def _canonical(name: str) -> str:
    """The name of a job type as it is stored."""
    # Imported where it is needed: `atlas status` lists pauses, and starts without what publishes types.
    from atlas.engine.jobs.handlers.types import canonical

    return canonical(name)
