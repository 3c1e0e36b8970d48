"""Routes to verify the audit log. It takes a while, so it runs in the background and reports its progress."""

import asyncio
import contextlib
from dataclasses import asdict
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from fastapi import APIRouter, Request

from atlas.actors import Actor
from atlas.api.app_state import AppState
from atlas.api.background_tasks import BackgroundTasks
from atlas.api.models.common import Id
from atlas.api.paging import IdCursor, Limit, read_page
from atlas.api.problems import AWAY
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.checkpoint_copies import outside_notes
from atlas.audit.guards import check_guards
from atlas.audit.keys import checkpoint_folder, public_keys
from atlas.audit.record import Event, record
from atlas.audit.sealer import seal_first
from atlas.audit.verify import verify
from atlas.client.models import Page
from atlas.client.models.audit import VerificationShown
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import AtlasError, NotFound
from atlas.ids import new_id
from atlas.logs import get_logger

router = APIRouter(prefix=f"{PREFIX}/audit/verifications", route_class=GuardedRoute, tags=["audit"])

KEEP = statement("api/sql/keep_verification.sql")
FIND = statement("api/sql/find_verification.sql")
LIST = statement("api/sql/list_verifications.sql")

REPORT_SECONDS = 1.0
END_TRIES = 30

log = get_logger("api")


@router.post(
    "", operation_id="start_verification", status_code=202, summary="Verify the whole audit log, in the background"
)
@requires("operator", "auditor", whole=True, no_key="a verification ends with its process; list them first")
async def start(request: Request, call: Calling) -> VerificationShown:
    """One at a time in each process: it reads everything, and holds a connection meanwhile."""
    id = new_id()
    with contextlib.ExitStack() as slot:
        slot.enter_context(call.api.verifications.taken(None))
        async with call.transaction() as conn:
            await _keep(conn, id, {"status": "running", "done": 0, "total": 0, "started_by": call.actor.id})
            await record(conn, Event("AUDIT_VERIFICATION", "verification", str(id), call.actor))
            shown = await _find(conn, id)
        background: BackgroundTasks = request.app.state.background
        background.start(_verify(call.api, id, call.actor, slot.pop_all()))
    return shown


@router.get("", operation_id="list_verifications", summary="The last verifications, newest first")
@requires("operator", "auditor", whole=True)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[VerificationShown]:
    """The twenty newest are kept."""
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda before, limit: fetch(conn, LIST, before=before and f"verification:{before}", limit=limit),
            _shown,
            after=cursor,
            limit=limit,
            key=lambda row: row["key"].removeprefix("verification:"),
            contents=lambda row: row["value"],
        )


@router.get(
    "/{verification_id:uuid}",
    operation_id="get_verification",
    summary="The progress of a verification, and what it found",
)
@requires("operator", "auditor", whole=True)
async def show_one(verification_id: Id, call: Calling) -> VerificationShown:
    """`lost` means that the process that ran it is gone: start another."""
    async with call.transaction(read_only=True) as conn:
        return await _find(conn, verification_id)


async def _verify(api: AppState, id: UUID, actor: Actor, slot: contextlib.ExitStack) -> None:
    state: dict[str, Any] = {"status": "running", "done": 0, "total": 0, "started_by": actor.id}
    reporting = asyncio.create_task(_report(api, id, state))
    try:
        with slot:
            state.update(await _verify_all(api, state))
    except Exception as error:
        known = isinstance(error, AtlasError)
        if not known:
            log.error("a verification failed", verification_id=str(id), exc_info=error)
        message = str(error) if known else f"It failed ({type(error).__name__}); the log says where. Start another."
        state.update(status="failed", notices=[message])
    finally:
        reporting.cancel()
        # A report that is being written must not come after the result.
        await asyncio.gather(reporting, return_exceptions=True)
    # Not when the process shuts down: that must not wait for a database that is away.
    await _store_result(api, id, state)


async def _verify_all(api: AppState, state: dict[str, Any]) -> dict[str, Any]:
    """The result of verifying the whole audit log; updates the progress in `state`."""
    refused = await seal_first(api.db.pool, api.settings)
    keys = public_keys(api.settings)
    copies = checkpoint_folder(api.settings)
    notes = await asyncio.to_thread(outside_notes, copies) if copies.is_dir() else []
    async with api.db.connection(watched=False) as conn:
        report = await verify(conn, keys, notes, progress=lambda done, total: state.update(done=done, total=total))
        report.findings.extend(await check_guards(conn))
    if refused is not None:
        report.find("signer", refused.message)
    figures = {name: value for name, value in asdict(report).items() if name not in ("findings", "notices")}
    return {
        "status": "whole" if report.ok else "damaged",
        "findings": [asdict(one) for one in report.findings],
        "notices": report.notices,
        "report": {**figures, "key": keys[0].name},
    }


async def _store_result(api: AppState, id: UUID, state: dict[str, Any]) -> None:
    """Store the result, with retries: the verification may have failed because the database was away."""
    for _ in range(END_TRIES):
        try:
            async with api.db.connection() as conn:
                await _keep(conn, id, state)
            return
        except (*AWAY, asyncpg.PostgresError) as error:
            log.warning("the result of a verification could not be stored", verification_id=str(id), reason=str(error))
        await asyncio.sleep(REPORT_SECONDS)


async def _report(api: AppState, id: UUID, state: dict[str, Any]) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        try:
            async with api.db.connection() as conn:
                await _keep(conn, id, state)
        except (*AWAY, asyncpg.PostgresError) as error:
            # The next report may succeed; a verification without reports counts as lost.
            log.warning("the progress of a verification was not stored", verification_id=str(id), reason=str(error))


async def _keep(conn: Any, id: UUID, state: dict[str, Any]) -> None:
    await fetch(conn, KEEP, key=f"verification:{id}", value=orjson.dumps(state).decode(), by=state["started_by"])


async def _find(conn: Any, id: UUID) -> VerificationShown:
    row = await fetch_row(conn, FIND, key=f"verification:{id}")
    if row is None:
        raise NotFound("verification", id)
    return _shown(row)


def _shown(row: Any) -> VerificationShown:
    value = {"findings": [], "notices": [], "report": {}, **orjson.loads(row["value"])}
    if value["status"] == "running" and row["is_silent"]:
        value["status"] = "lost"
    return VerificationShown(id=row["key"].removeprefix("verification:"), updated_at=row["updated_at"], **value)
