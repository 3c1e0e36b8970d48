"""Routes to verify the audit log. It takes a while, so it runs in the background and reports its progress."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from fastapi import APIRouter, Request

from atlas.actors import Actor
from atlas.api.access.roles import READERS
from atlas.api.app_state import AppState
from atlas.api.background_tasks import BackgroundTasks
from atlas.api.models.common import Id
from atlas.api.paging import IdCursor, Limit, read_page
from atlas.api.problems import AWAY
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.guards import check_guards
from atlas.audit.keys import checkpoint_folder, public_keys
from atlas.audit.record import Event, record
from atlas.audit.sealing.checkpoint_copies import outside_notes
from atlas.audit.sealing.sealer import seal_first
from atlas.audit.verification.verdict import record_verdict
from atlas.audit.verification.verify import unnamed_key, verify
from atlas.audit.verification.verify_tenant import verify_tenant
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.db.pool import Connection
from atlas.db.replica import read_first
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import AtlasError, NotFound
from atlas.ids import new_id
from atlas.logs import get_logger
from atlas.models import Page
from atlas.models.audit import AuditVerification

router = APIRouter(prefix=f"{PREFIX}/audit/verifications", route_class=GuardedRoute, tags=["audit"])

KEEP = statement("api/resources/audit/sql/keep_verification.sql")
FIND = statement("api/resources/audit/sql/find_verification.sql")
LIST = statement("api/resources/audit/sql/list_verifications.sql")

MAX_KEPT = 20
REPORT_SECONDS = 1.0
END_TRIES = 30

log = get_logger("api")


@router.post("", operation_id="start_verification", status_code=202, summary="Verify the audit log, in the background")
@requires(*READERS, no_key="a verification ends with its process; list them first")
async def start(request: Request, call: Calling) -> AuditVerification:
    """All of it, or the tenant's part where one is meant: that each of its rows is in the signed tree, unchanged.

    In each process one of the whole log and one of a tenant run at a time: each holds a connection meanwhile.
    """
    limit = call.api.verifications if call.tenant_id is None else call.api.tenant_verifications
    verification = _Verification(new_id(), call.tenant_id, call.actor)
    with contextlib.ExitStack() as slot:
        slot.enter_context(limit.taken(None))
        async with call.transaction(all_tenants=True) as conn:
            await verification.keep(conn)
            subject = str(verification.id)
            await record(conn, Event("AUDIT_VERIFICATION", "verification", subject, call.actor, call.tenant_id))
            view = await _find(conn, verification.key)
        background: BackgroundTasks = request.app.state.background
        background.start(_verify(call.api, verification, slot.pop_all()))
    return view


@router.get("", operation_id="list_verifications", summary="The last verifications, newest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[AuditVerification]:
    """Those of the whole log, or of the tenant where one is meant. The twenty newest are kept."""
    kind = _kind(call.tenant_id)
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await read_page(
            lambda after, limit: fetch(conn, LIST, kind=kind, before=after and f"{kind}{after}", limit=limit),
            cursor,
            limit,
            show=_verification_of,
            key=lambda row: row["key"].removeprefix(kind),
            contents=lambda row: row["value"],
        )


@router.get(
    "/{verification_id:uuid}",
    operation_id="get_verification",
    summary="The progress of a verification, and what it found",
)
@requires(*READERS)
async def show_one(verification_id: Id, call: Calling) -> AuditVerification:
    """`lost` means that the process that ran it is gone: start another."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await _find(conn, f"{_kind(call.tenant_id)}{verification_id}")


@dataclass(slots=True)
class _Verification:
    """A verification of the whole audit log, or of a tenant's part of it, and what is known of it so far."""

    id: UUID
    tenant_id: UUID | None
    actor: Actor
    # What was found, once it has ended.
    result: Report | None = None
    state: dict[str, Any] = field(default_factory=lambda: {"status": "running", "done": 0, "total": 0})

    @property
    def key(self) -> str:
        """Where its state is stored."""
        return f"{_kind(self.tenant_id)}{self.id}"

    def progress(self, done: int, total: int) -> None:
        """Note how far it is."""
        self.state.update(done=done, total=total)

    async def keep(self, conn: Connection) -> None:
        """Store its state."""
        value = orjson.dumps({**self.state, "started_by": self.actor.id}).decode()
        kind = _kind(self.tenant_id)
        await fetch(conn, KEEP, key=self.key, value=value, by=self.actor.id, kind=kind, most=MAX_KEPT)

    async def end(self, conn: Connection) -> None:
        """Store its result and record the verdict."""
        async with conn.transaction():
            await self.keep(conn)
            if self.result is not None:
                about: Any = {"verification_id": self.id, "tenant_id": self.tenant_id}
                await record_verdict(conn, self.result, actor=self.actor, **about)


def _kind(tenant_id: UUID | None) -> str:
    """What the keys begin with. Those of a tenant are not found by another, whatever id it names."""
    return "verification:" if tenant_id is None else f"tenant_verification:{tenant_id}:"


async def _verify(api: AppState, verification: _Verification, slot: contextlib.ExitStack) -> None:
    reporting = asyncio.create_task(_report(api, verification))
    try:
        with slot:
            verification.state.update(await _result(api, verification))
    except Exception as error:
        is_explained = isinstance(error, AtlasError)
        if not is_explained:
            log.error("a verification failed", verification_id=str(verification.id), exc_info=error)
        message = (
            str(error) if is_explained else f"It failed ({type(error).__name__}); the log says where. Start another."
        )
        verification.state.update(status="failed", notices=[message])
    finally:
        reporting.cancel()
        # A report that is being written must not come after the result.
        await asyncio.gather(reporting, return_exceptions=True)
    # Not when the process shuts down: that must not wait for a database that is away.
    await _store_result(api, verification)


async def _result(api: AppState, verification: _Verification) -> dict[str, Any]:
    """What was found; updates the progress meanwhile."""
    refused = await seal_first(api.db.pool, api.settings)
    keys = public_keys(api.settings)
    if verification.tenant_id is None:
        report = await _verify_all(api, keys, verification)
    else:
        walk = partial(verify_tenant, tenant_id=verification.tenant_id, keys=keys, progress=verification.progress)
        async with api.db.connection(watched=False) as conn:
            report = await read_first(api.settings, conn, walk)
    if refused is not None and verification.tenant_id is None:
        report.find("signer", refused.message)
    elif refused is not None:
        report.notices.append("The newest rows could not be sealed and signed first; operators see why.")
    verification.result = report
    figures = {name: value for name, value in asdict(report).items() if name not in ("findings", "notices")}
    return {
        "status": "whole" if report.ok else "damaged",
        "findings": [asdict(finding) for finding in report.findings],
        "notices": report.notices,
        "report": {**figures, "key": keys[0].name},
    }


async def _verify_all(api: AppState, keys: Sequence[VerifierKey], verification: _Verification) -> Report:
    copies = checkpoint_folder(api.settings)
    notes = await asyncio.to_thread(outside_notes, copies) if copies.is_dir() else []
    async with api.db.connection(watched=False) as conn:
        walk = partial(verify, keys=keys, outside=notes, progress=verification.progress)
        report = await read_first(api.settings, conn, walk)
        report.findings += [*await unnamed_key(conn), *await check_guards(conn)]
    return report


async def _store_result(api: AppState, verification: _Verification) -> None:
    """Store the result, with retries: the verification may have failed because the database was away."""
    for _ in range(END_TRIES):
        if await _store(api, verification.end):
            return
        await asyncio.sleep(REPORT_SECONDS)


async def _report(api: AppState, verification: _Verification) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        # The next report may succeed; a verification without reports counts as lost.
        await _store(api, verification.keep)


async def _store(api: AppState, store: Callable[[Connection], Awaitable[None]]) -> bool:
    try:
        async with api.db.connection() as conn:
            await store(conn)
    except (*AWAY, asyncpg.PostgresError) as error:
        log.warning("the state of a verification could not be stored", reason=str(error))
        return False
    return True


async def _find(conn: Any, key: str) -> AuditVerification:
    row = await fetch_row(conn, FIND, key=key)
    if row is None:
        raise NotFound("verification", key.rpartition(":")[2])
    return _verification_of(row)


def _verification_of(row: Any) -> AuditVerification:
    value = {"findings": [], "notices": [], "report": {}, **orjson.loads(row["value"])}
    if value["status"] == "running" and row["is_silent"]:
        value["status"] = "lost"
    return AuditVerification(id=row["key"].rpartition(":")[2], updated_at=row["updated_at"], **value)
