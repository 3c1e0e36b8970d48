"""Tokens: shown once, kept as a hash, good until they expire or are revoked."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from atlas.actors import Actor
from atlas.engine.access.grants import grant_enqueue
from atlas.engine.access.sessions import end_session, open_session
from atlas.engine.access.tokens import (
    ROLES,
    add_token,
    authenticate,
    ensure_operator_token,
    list_tokens,
    revoke_created_tokens,
    revoke_token,
)
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.webhooks.inbound import add_hook, rotate_hook_secret
from atlas.engine.webhooks.store import add_webhook, edit_webhook, rotate_webhook_secret
from atlas.errors import Conflict, InvalidInput, NotFound, Refused, SettingsError
from atlas.ids import new_id
from tests.support import ALICE

CHOSEN = "a-token-chosen-by-hand"


@pytest.fixture
async def acme(conn):
    return await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)


async def everything_stored(conn):
    """Every text and byte of the tables that a token touches."""
    rows = await conn.fetch(
        "select to_jsonb(t)::text || encode(t.hash, 'escape') as text from atlas.api_tokens t"
        " union all select to_jsonb(a)::text || encode(a.body, 'escape') from atlas.audit_log a"
    )
    return "\n".join(row["text"] for row in rows)


async def test_a_new_token_authenticates_as_its_subject_and_role(conn, acme):
    token, clear = await add_token(conn, subject="billing", role="enqueuer", tenant=acme, actor=ALICE)

    found = await authenticate(conn, clear)

    assert found is not None
    assert (found.id, found.subject, found.role, found.tenant_id) == (token.id, "billing", "enqueuer", acme.id)
    assert clear.startswith(f"atl_{token.prefix}_")


async def test_neither_a_table_nor_the_audit_ever_holds_the_secret(conn):
    token, clear = await add_token(conn, subject="alice", role="operator", actor=ALICE)
    await authenticate(conn, clear)
    await revoke_token(conn, token.prefix, actor=ALICE)

    stored = await everything_stored(conn)
    assert token.prefix in stored
    assert clear not in stored
    assert clear.removeprefix(f"atl_{token.prefix}_") not in stored


async def test_a_token_with_one_letter_changed_is_a_stranger(conn):
    token, clear = await add_token(conn, subject="alice", role="operator", actor=ALICE)
    other = "b" if clear[-1] != "b" else "c"

    for wrong in (
        clear[:-1] + other,
        clear[:-1],
        clear + "x",
        f"atl_{token.prefix}_",
        token.prefix,
        "",
        "nul\x00",
        "\udc80",
    ):
        assert await authenticate(conn, wrong) is None


async def test_an_expired_token_is_refused_by_the_database_clock(conn):
    soon = datetime.now(UTC) + timedelta(hours=1)
    token, clear = await add_token(conn, subject="alice", role="operator", expires_at=soon, actor=ALICE)
    assert await authenticate(conn, clear) is not None

    await conn.execute("update atlas.api_tokens set expires_at = clock_timestamp() where id = $1", token.id)

    assert await authenticate(conn, clear) is None


async def test_a_revoked_token_is_refused_and_revoking_it_again_changes_nothing(conn):
    token, clear = await add_token(conn, subject="alice", role="operator", actor=ALICE)

    first = await revoke_token(conn, token.prefix, actor=ALICE)
    again = await revoke_token(conn, str(token.id), actor=ALICE)

    assert first.revoked_at is not None
    assert again == first
    assert await authenticate(conn, clear) is None
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'TOKEN_REVOKED'") == 1


async def test_the_audit_names_the_token_its_subject_and_who_made_it(conn, acme):
    token, _ = await add_token(conn, subject="billing", role="enqueuer", tenant=acme, actor=ALICE)

    event = await conn.fetchrow("select * from atlas.audit_log where action = 'TOKEN_ADDED'")
    assert (event["entity_id"], event["tenant_id"], event["actor_id"]) == (str(token.id), acme.id, "alice")
    assert '"subject": "billing"' in event["meta"]


async def test_use_is_remembered_but_not_written_with_every_request(conn):
    token, clear = await add_token(conn, subject="alice", role="operator", actor=ALICE)
    await authenticate(conn, clear)
    [first] = await list_tokens(conn)
    await authenticate(conn, clear)
    [second] = await list_tokens(conn)
    await conn.execute("update atlas.api_tokens set last_used_at = last_used_at - interval '2 minutes'")
    await authenticate(conn, clear)
    [third] = await list_tokens(conn)

    assert token.last_used_at is None
    assert first.last_used_at == second.last_used_at
    assert third.last_used_at > first.last_used_at


async def test_the_list_shows_one_tenant_or_all(conn, acme):
    await add_token(conn, subject="alice", role="operator", actor=ALICE)
    await add_token(conn, subject="billing", role="enqueuer", tenant=acme, actor=ALICE)

    assert [token.subject for token in await list_tokens(conn)] == ["alice", "billing"]
    assert [token.subject for token in await list_tokens(conn, tenant_id=acme.id)] == ["billing"]


@pytest.mark.parametrize("role", [role for role in ROLES if role not in ("operator", "auditor")])
async def test_a_role_inside_a_tenant_needs_one(conn, role):
    with pytest.raises(InvalidInput, match=f"tenant: the role {role} needs one"):
        await add_token(conn, subject="x", role=role, actor=ALICE)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"role": "root"}, "role: 'root' is not one of operator, tenant_admin"),
        ({"subject": ""}, "subject: must not be empty"),
        ({"subject": "two\nlines"}, "subject: must not hold line breaks"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at: must be in the future"),
        ({"expires_at": datetime(2990, 1, 1)}, "expires_at: must name its time zone"),
    ],
)
async def test_a_wrong_field_is_refused_by_its_name_and_reason(conn, given, reason):
    with pytest.raises(InvalidInput, match=reason):
        await add_token(conn, **{"subject": "alice", "role": "operator", "actor": ALICE, **given})

    assert await list_tokens(conn) == []


async def test_a_hosts_token_names_its_host(conn, acme):
    with pytest.raises(InvalidInput, match="needs the id of its host"):
        await add_token(conn, subject="rack", role="host", tenant=acme, actor=ALICE)


async def test_an_operator_belongs_to_no_tenant(conn, acme):
    with pytest.raises(InvalidInput, match="belongs to none"):
        await add_token(conn, subject="alice", role="operator", tenant=acme, actor=ALICE)


@pytest.mark.parametrize("name", ["zzzzzzzz", "", "nul\x00", "0190a4c8-0000-7000-8000-00000000dead"])
async def test_a_token_that_does_not_exist_cannot_be_revoked(conn, name):
    with pytest.raises(NotFound, match="There is no token"):
        await revoke_token(conn, name, actor=ALICE)


async def test_the_operator_token_of_an_installation_is_made_once_however_many_ask(pool):
    async def ensure():
        async with pool.acquire() as conn:
            return await ensure_operator_token(conn, CHOSEN, actor=ALICE)

    tokens = await asyncio.gather(*(ensure() for _ in range(5)))

    assert len({token.id for token in tokens}) == 1
    async with pool.acquire() as conn:
        found = await authenticate(conn, CHOSEN)
        assert found is not None
        assert (found.role, found.subject) == ("operator", "operator")
        assert len(await list_tokens(conn)) == 1


async def test_a_revoked_operator_token_is_not_brought_back_by_the_environment(conn):
    token = await ensure_operator_token(conn, CHOSEN, actor=ALICE)
    await revoke_token(conn, token.prefix, actor=ALICE)

    with pytest.raises(Conflict, match="was revoked"):
        await ensure_operator_token(conn, CHOSEN, actor=ALICE)


async def test_a_short_operator_token_is_refused(conn):
    with pytest.raises(SettingsError, match="ATLAS_OPERATOR_TOKEN cannot be used: it is shorter than 16"):
        await ensure_operator_token(conn, "secret", actor=ALICE)


def acting_with(token):
    return Actor("user", token.subject, token=token.prefix)


async def test_a_revoked_token_creates_no_credential(conn, acme):
    maker, _ = await add_token(conn, subject="ann", role="tenant_admin", tenant=acme, actor=ALICE)
    await revoke_token(conn, maker.prefix, actor=ALICE)

    with pytest.raises(Refused, match=f"The token {maker.prefix} was revoked"):
        await add_token(conn, subject="second", role="tenant_admin", tenant=acme, actor=acting_with(maker))
    hook, _ = await add_hook(conn, acme.id, "it.happened", actor=ALICE)
    webhook, _ = await add_webhook(conn, acme.id, "https://example.com/x", ["job.failed"], actor=ALICE)
    thief = acting_with(maker)
    for create in (
        add_hook(conn, acme.id, "it.happened", actor=thief),
        rotate_hook_secret(conn, hook.id, actor=thief, overlap_seconds=0),
        add_webhook(conn, acme.id, "https://example.com/y", ["job.failed"], actor=thief),
        rotate_webhook_secret(conn, webhook.id, actor=thief, overlap_seconds=0),
        grant_enqueue(conn, "shop", tenants=[acme], job_types=["shop.*"], actor=thief),
        edit_webhook(conn, webhook.id, {"url": "https://example.com/z"}, actor=thief),
        open_session(conn, maker, actor=thief),
    ):
        with pytest.raises(Refused, match=f"The token {maker.prefix} was revoked"):
            await create
    assert [token.subject for token in await list_tokens(conn, tenant_id=acme.id)] == ["ann"]


async def test_a_session_that_ended_creates_no_credential_though_its_token_is_valid(conn, acme):
    maker, _ = await add_token(conn, subject="ann", role="tenant_admin", tenant=acme, actor=ALICE)
    ended, _ = await open_session(conn, maker, actor=acting_with(maker))
    await end_session(conn, ended, actor=acting_with(maker))
    opened, _ = await open_session(conn, maker, actor=acting_with(maker))

    for session, created in ((opened.id, True), (ended.id, False), (new_id(), False)):
        adding = add_token(
            conn, subject=str(session), role="enqueuer", tenant=acme, actor=replace(acting_with(maker), session=session)
        )
        with nullcontext() if created else pytest.raises(Refused, match="The session was ended or has expired"):
            await adding
    assert len(await list_tokens(conn, tenant_id=acme.id)) == 2


async def test_a_revocation_comes_before_or_after_what_its_token_creates(pool, conn, acme):
    maker, _ = await add_token(conn, subject="ann", role="tenant_admin", tenant=acme, actor=ALICE)
    async with pool.acquire() as other:
        creating = other.transaction()
        await creating.start()
        await add_token(other, subject="second", role="enqueuer", tenant=acme, actor=acting_with(maker))
        revoking = asyncio.create_task(revoke_token(conn, maker.prefix, actor=ALICE))
        await asyncio.wait([revoking], timeout=0.3)
        assert not revoking.done()
        await creating.commit()
        await revoking

        with_it = await revoke_created_tokens(conn, maker, actor=ALICE)
    assert [token.subject for token in with_it] == ["second"]


async def test_revoking_what_a_token_created_reaches_all_that_goes_back_to_it(conn, acme):
    first, _ = await add_token(conn, subject="first", role="tenant_admin", tenant=acme, actor=ALICE)
    second, _ = await add_token(conn, subject="second", role="tenant_admin", tenant=acme, actor=acting_with(first))
    await add_token(conn, subject="third", role="enqueuer", tenant=acme, actor=acting_with(second))
    await add_token(conn, subject="bystander", role="enqueuer", tenant=acme, actor=ALICE)
    await revoke_token(conn, second.prefix, actor=ALICE)
    await revoke_token(conn, first.prefix, actor=ALICE)

    revoked = await revoke_created_tokens(conn, first, actor=ALICE)

    assert [token.subject for token in revoked] == ["third"]
    valid = [token.subject for token in await list_tokens(conn, tenant_id=acme.id) if token.revoked_at is None]
    assert valid == ["bystander"]
    assert await revoke_created_tokens(conn, first, actor=ALICE) == []
