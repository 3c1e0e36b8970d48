"""The access review of a month: who could do what, who did, and which credentials nobody used."""

import csv
import io
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.db.statements import fetch_value
from atlas.engine.access.access_report import COLUMNS, LAST_BEFORE, report_access, report_csv
from atlas.engine.access.grants import grant_enqueue, revoke_enqueue
from atlas.engine.access.tokens import add_token, revoke_token
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import InvalidInput
from tests.support import DANA, given_tenant

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
BEFORE = NOW.replace(day=1) - timedelta(days=40)


@pytest.fixture
async def acme(owner):
    """A tenant with a token that is used, one that is not, one that was revoked long ago, and a login."""
    tenant = await find_tenant(owner, await given_tenant(owner, "acme"))
    for subject in ("=used", "idle", "new", "gone"):
        token, _ = await add_token(owner, subject=subject, role="enqueuer", tenant=tenant, actor=DANA)
        if subject == "gone":
            await revoke_token(owner, token.prefix, actor=DANA)
    await owner.execute("update atlas.api_tokens set created_at = $1 where subject <> 'new'", BEFORE)
    await owner.execute("update atlas.api_tokens set revoked_at = $1 where subject = 'gone'", BEFORE)
    await owner.execute("update atlas.api_tokens set last_used_at = now() where subject = '=used'")
    await owner.execute("update atlas.api_tokens set last_used_at = $1 where subject = 'idle'", BEFORE)
    await record(owner, Event("THING_DONE", "thing", "1", DANA, tenant.id))
    await record(owner, Event("THING_DONE", "thing", "2", DANA, tenant.id))
    return tenant


def rows(report, *names):
    return {tuple(getattr(credential, name) for name in names) for credential in report.credentials}


async def test_credentials_that_were_valid_in_the_month_are_listed_and_the_dormant_are_marked(owner, acme):
    report = await report_access(owner, THIS, tenant_id=acme.id)
    assert rows(report, "kind", "subject", "is_dormant") == {
        ("token", "=used", False),
        ("token", "idle", True),
        ("token", "new", False),
    }
    # In the month when it was revoked it could still be used.
    earlier = await report_access(owner, f"{BEFORE:%Y-%m}", tenant_id=acme.id)
    assert {("gone",), ("idle",)} <= rows(earlier, "subject")
    assert ("new",) not in rows(earlier, "subject")
    assert earlier.activity == []


async def test_what_was_done_is_counted_by_actor_and_action(owner, acme):
    report = await report_access(owner, THIS, tenant_id=acme.id)
    counts = {(one.actor_id, one.action): one.count for one in report.activity}
    assert (counts["dana", "THING_DONE"], counts["dana", "TOKEN_ADDED"]) == (2, 4)
    whole = await report_access(owner, THIS)
    assert len(whole.activity) >= len(report.activity)
    assert ("login", "superuser") in rows(whole, "kind", "role")


async def test_the_log_is_read_from_the_month_on(owner, acme):
    earlier = datetime.now(UTC).replace(day=1) - timedelta(days=2)
    assert await fetch_value(owner, LAST_BEFORE, at=earlier) == 0
    while await seal(owner):
        pass
    async with owner.transaction():
        await owner.execute("alter table atlas.audit_seal disable trigger user")
        await owner.execute("update atlas.audit_seal set snap_at = $1", earlier)
        await owner.execute("alter table atlas.audit_seal enable trigger user")
    last = await owner.fetchval("select max(id) from atlas.audit_log")
    assert await fetch_value(owner, LAST_BEFORE, at=earlier + timedelta(hours=2)) == last

    # What was sealed before the month is not read again; what came later is.
    await record(owner, Event("THING_DONE", "thing", "3", DANA, acme.id))
    report = await report_access(owner, THIS, tenant_id=acme.id)
    assert [(one.action, one.count) for one in report.activity] == [("THING_DONE", 1)]


async def test_grants_are_listed_also_those_that_were_revoked_in_the_month(owner, acme):
    login = f"shop_{uuid4().hex[:8]}"
    await owner.execute(f"create role {login} login")
    try:
        await grant_enqueue(owner, login, tenants=[acme], job_types=["a.work", "b.work"], actor=DANA)
        await revoke_enqueue(owner, login, job_type="b.work", actor=DANA)
        report = await report_access(owner, THIS, tenant_id=acme.id)
        logins = await report_access(owner, THIS)
        await revoke_enqueue(owner, login, actor=DANA)
    finally:
        await owner.execute(f"drop role {login}")
    grants = {
        (credential.subject, credential.scope, credential.ends_at is None)
        for credential in report.credentials
        if credential.kind == "grant"
    }
    assert grants == {(f"db:{login}", "a.work", True), (f"db:{login}", "b.work", False)}
    assert ("login", f"db:{login}", "atlas_enqueuer") in rows(logins, "kind", "subject", "role")


async def test_csv_has_a_row_for_each_and_no_formula(owner, acme):
    table = list(csv.reader(io.StringIO(report_csv(await report_access(owner, THIS, tenant_id=acme.id)))))
    assert tuple(table[0]) == COLUMNS
    found = [dict(zip(COLUMNS, row, strict=True)) for row in table[1:]]
    assert {(row["section"], row["subject"], row["is_dormant"]) for row in found if row["kind"] == "token"} == {
        ("credential", "'=used", "False"),
        ("credential", "idle", "True"),
        ("credential", "new", "False"),
    }
    assert ("THING_DONE", "2") in {(row["action"], row["count"]) for row in found}


@pytest.mark.parametrize("month", ["2026-13", "2026", "", "0000-01", "2026-11-01"])
async def test_a_month_is_a_year_and_a_number(owner, month):
    with pytest.raises(InvalidInput, match="is not a month such as 2026-11"):
        await report_access(owner, month)
