"""What the cross-check finds of events that the programs' login wrote in the name of a caller over HTTP."""

import pytest

from atlas.actors import Actor, system
from atlas.audit.record import Event, record
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.access.tokens import add_token, revoke_token
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.tenants.tenants import add_tenant
from tests.engine.jobs.given import given_job
from tests.support import DANA

REVOKED = (
    "update atlas.api_tokens set revoked_at = clock_timestamp() - interval '{}', created_at = now() - interval '1 day'"
)


@pytest.fixture
async def ann(conn):
    """Ann, as the API records her, with a token of the tenant `acme`."""
    tenant = await add_tenant(conn, slug="acme", name="Acme", timezone="UTC", actor=DANA)
    token, _ = await add_token(conn, subject="ann", role="tenant_admin", tenant=tenant, actor=DANA)
    return Actor("user", "ann", request_id="r-1", token=token.prefix)


async def callers(conn) -> list[str]:
    return [finding.message for finding in await cross_check(conn) if finding.kind == "caller"]


async def canceled_by(conn, actor: Actor) -> None:
    """A job of the tenant `system` that this actor canceled: the trigger does not compare tokens of job events."""
    await cancel(conn, await given_job(conn, "report.build"), actor=actor)


async def note(conn, actor: Actor, action: str = "NOTED") -> None:
    await record(conn, Event(action, "note", "1", actor))


async def test_events_of_callers_with_their_own_tokens_are_right(conn, ann):
    await note(conn, ann)
    await canceled_by(conn, Actor("user", "someone"))
    assert await callers(conn) == []


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ({"token": "nonesuch"}, "which does not exist"),
        ({"id": "bob"}, "which has another subject"),
        ({}, "which belongs to another tenant"),
    ],
)
async def test_a_forged_job_event_with_the_token_of_another_is_found(conn, ann, forged, reason):
    actor = Actor("user", forged.get("id", "ann"), request_id="r-1", token=forged.get("token", ann.token))
    await canceled_by(conn, actor)
    [message] = await callers(conn)
    assert f"JOB_CANCELED by {actor.id!r}, names token {actor.token}, {reason}" in message


async def test_an_event_by_a_token_that_was_revoked_or_not_yet_created_is_found(conn, owner, ann):
    await note(conn, ann)
    await owner.execute(REVOKED.format("30 seconds"))
    assert await callers(conn) == []  # a request that had begun
    await owner.execute(REVOKED.format("2 minutes"))
    [message] = await callers(conn)
    assert "NOTED by 'ann'" in message
    assert "which was not valid at that time" in message
    await owner.execute("update atlas.api_tokens set revoked_at = null, created_at = now() + interval '1 hour'")
    assert len(await callers(conn)) == 1


async def test_what_a_token_began_may_end_after_it_was_revoked(conn, owner, ann):
    await given_job(conn, "report.build")
    operator, _ = await add_token(conn, subject="olga", role="operator", actor=DANA)
    caller = Actor("user", "olga", request_id="r-2", token=operator.prefix)
    action = await begin_bulk_action(conn, "cancel", actor=caller, ids=[await given_job(conn, "report.build")])
    await note(conn, caller, "AUDIT_VERIFIED")
    await owner.execute(
        "alter table atlas.audit_log disable trigger user; update atlas.audit_log set created_at = now() - interval '2 hours'"
        " where action = 'BULK_ACTION_BEGAN'; alter table atlas.audit_log enable trigger user"
    )
    await record(conn, Event("NOTED", "note", "1", caller, meta={"bulk_action": str(action.id)}))
    for alibi in ("of no one", "its own"):
        meta = {"bulk_action": alibi}
        await record(conn, Event("BULK_ACTION_BEGAN", "bulk_action", "its own", caller, meta=meta))
    await revoke_token(conn, operator.prefix, actor=system("tests"))
    await owner.execute(REVOKED.format("1 hour"))
    assert ["BULK_ACTION_BEGAN" in message for message in await callers(conn)] == [True, True]
