"""Reconciliation: all differences between the ledger and a provider are found, and nothing else is."""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from atlas.actors import Actor
from atlas.engine.alerts import find_alerts
from atlas.engine.effects.adapters import ProviderUnavailable, find_adapter, register_adapter, remove_adapter
from atlas.engine.effects.reconcile import ReconcileOptions, reconcile
from atlas.engine.effects.reports import list_reports
from atlas.errors import NotFound
from atlas.ids import first_id
from atlas.integrations.effects.stripe import StripeCharges
from tests.engine.jobs.given import given_job
from tests.integrations.effects.stripe_server import API_KEY, StripeServer
from tests.support import DANA, PROOF

EFFECTS = 10_000 if PROOF else 300
PLANTED = 2_000 if PROOF else 120
SEED = 20261118
# Longer than a slow machine takes for a test.
GRACE = timedelta(hours=1)
NOW = datetime.now(UTC)
SINCE = NOW - timedelta(days=1)
PAST = NOW - timedelta(hours=3)
# Before the time that is compared.
OLDER = NOW - timedelta(days=3)
# Within the time in which the provider may not list it yet.
FRESH = NOW - timedelta(minutes=1)


@dataclass(frozen=True)
class Case:
    """An effect on both sides: its row, the charges with its key, and the difference that this is."""

    state: str | None = None
    charges: int = 0
    difference: str | None = None
    at: datetime = PAST
    charged_at: datetime = PAST
    # That of the first charge, unless a test says another.
    reference: str | None = None
    is_declined: bool = False
    has_key: bool = True


DIFFERENT = (
    Case("done", 0, "not_there", reference="ch_lost"),
    Case(None, 1, "not_here"),
    Case(None, 1, "not_here", has_key=False),
    Case("done", 2, "twice"),
    Case("unknown", 1, "found"),
    # Its attempt has died.
    Case("intended", 1, "found"),
    Case("unknown", 1, "found", at=OLDER),
    Case("refused", 1, "refused_here"),
    Case("done", 1, "other_reference", reference="ch_other"),
)
ALIKE = (
    *(Case("done", 1),) * 5,
    Case("refused"),
    Case("refused", 1, is_declined=True),
    Case("unknown"),
    # Called again after days.
    Case("done", 1, at=OLDER),
    # Not listed yet.
    Case("done", reference="ch_late", at=FRESH),
    # Of the time before.
    Case(None, 1, charged_at=SINCE - timedelta(minutes=5)),
)


class Ledger:
    """Rows of effects as attempts would have left them, all of one job, which runs no more."""

    def __init__(self, job_id: UUID) -> None:
        self.job_id = job_id
        self.rows: list[tuple[object, ...]] = []

    def add(self, key: str, state: str, *, reference: str | None = None, at: datetime = PAST) -> None:
        id = UUID(int=first_id(at).int | len(self.rows))
        self.rows.append((id, key, state, reference, at, None if state == "intended" else at, self.job_id))

    async def write(self, conn: Any) -> None:
        await conn.executemany(
            """insert into atlas.effects
              (id, key, state, reference, intended_at, created_at, ended_at, tenant_id, job_id, job_type, name, attempt_no)
            select $1, $2, $3, $4, $5, $5, $6, tenant_id, id, job_type, 'stripe.charge', 1 from atlas.jobs where id = $7""",
            self.rows,
        )


def plant(ledger: Ledger, server: StripeServer, case: Case) -> str:
    """One case on both sides; returns its key, or its charge if that has none."""
    key = str(uuid4())
    status = "failed" if case.is_declined else "succeeded"
    charges = [
        server.charge(key if case.has_key else None, created=case.charged_at.timestamp(), status=status)["id"]
        for _ in range(case.charges)
    ]
    if case.state is not None:
        reference = case.reference or charges[0] if case.state == "done" else None
        ledger.add(key, case.state, reference=reference, at=case.at)
    return key if case.has_key else charges[0]


@pytest.fixture
async def stripe():
    server = StripeServer()
    async with server.running():
        adapter = StripeCharges(API_KEY, url=server.url)
        yield server, adapter
        await adapter.close()


async def test_all_planted_differences_are_found_and_nothing_else(pool, conn, stripe):
    server, adapter = stripe
    ledger = Ledger(await given_job(conn))
    chance = random.Random(SEED)
    cases = [*chance.choices(DIFFERENT, k=PLANTED), *chance.choices(ALIKE, k=EFFECTS - PLANTED)]
    chance.shuffle(cases)
    keys = [plant(ledger, server, case) for case in cases]
    planted = {(case.difference, key) for case, key in zip(cases, keys, strict=True) if case.difference is not None}
    await ledger.write(conn)
    seen = []

    report = await reconcile(
        pool,
        adapter,
        ReconcileOptions("stripe", SINCE, grace=GRACE, max_rows=EFFECTS),
        actor=DANA,
        progress=lambda entries, effects: seen.append((entries, effects)),
    )

    found = [(row.kind, row.key or row.provider_references[0]) for row in report.rows]
    assert len(found) == len(planted) == PLANTED
    assert set(found) == planted
    assert report.counts == Counter(kind for kind, _ in planted)
    assert report.in_doubt == cases.count(Case("unknown"))
    assert seen[-1] == (report.entries, report.effects)

    # Nothing was changed but what was asked for; then the unknown ones are settled, and are no difference any more.
    assert report.settled == 0
    settled = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE, grace=GRACE, settle=True), actor=DANA)
    again = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE, grace=GRACE), actor=DANA)
    assert settled.settled == report.counts["found"]
    assert again.counts == {kind: count for kind, count in report.counts.items() if kind != "found"}


async def test_a_report_is_recorded_and_an_alert_until_the_sides_agree(pool, conn, stripe):
    server, adapter = stripe
    ledger = Ledger(await given_job(conn))
    key = plant(ledger, server, Case("unknown", 1))
    await ledger.write(conn)
    options = ReconcileOptions("stripe", SINCE)

    await reconcile(pool, adapter, options, actor=Actor("user", "dana"))

    alerts = [alert for alert in await find_alerts(conn) if alert.kind == "effects_differ"]
    assert [(alert.subject, alert.message) for alert in alerts] == [
        ("stripe", "The effect ledger and stripe differ in 1 effect. See `atlas effects reconcile stripe`.")
    ]
    event = await conn.fetchrow("select * from atlas.audit_log where action = 'EFFECTS_RECONCILED'")
    assert (event["actor_id"], event["entity_id"], event["tenant_id"], str(event["level"])) == (
        "dana",
        "stripe",
        None,
        "warn",
    )
    assert key in str(event["meta"])
    assert [(report.provider, report.differences, report.rows) for report in await list_reports(conn)] == [
        ("stripe", 1, [])
    ]

    await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE, settle=True), actor=Actor("user", "dana"))

    assert [alert for alert in await find_alerts(conn) if alert.kind == "effects_differ"] == []
    row = await conn.fetchrow("select state, reference, settled_by from atlas.effects")
    assert tuple(row) == ("done", "ch_1", "dana")
    assert await conn.fetchval("select count(*) from atlas.audit_entries where action = 'EFFECT_SETTLED'") == 1


async def test_an_effect_that_was_made_twice_is_not_settled(pool, conn, stripe):
    server, adapter = stripe
    ledger = Ledger(await given_job(conn))
    key = plant(ledger, server, Case("unknown", 1))
    server.charge(key)
    await ledger.write(conn)

    report = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE, settle=True), actor=DANA)

    assert (report.settled, report.counts) == (0, {"twice": 1, "found": 1})
    assert await conn.fetchval("select state from atlas.effects") == "unknown"


async def test_a_list_with_a_delay_is_waited_for_by_the_grace(pool, conn, stripe):
    server, adapter = stripe
    ledger = Ledger(await given_job(conn))
    ledger.add("k", "done", reference=server.charge("k")["id"], at=NOW - timedelta(minutes=30))
    await ledger.write(conn)
    server.listed = 0

    patient = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE, grace=GRACE), actor=DANA)
    hasty = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE), actor=DANA)
    server.listed = None
    later = await reconcile(pool, adapter, ReconcileOptions("stripe", SINCE), actor=DANA)

    assert [report.counts for report in (patient, hasty, later)] == [{}, {"not_there": 1}, {}]


async def test_a_page_that_cannot_be_read_leaves_the_last_report(pool, conn, stripe):
    await reconcile(pool, stripe[1], ReconcileOptions("stripe", SINCE), actor=DANA)
    wrong = StripeCharges(API_KEY, url="http://127.0.0.1:1")

    with pytest.raises(ProviderUnavailable, match="Stripe could not be asked"):
        await reconcile(pool, wrong, ReconcileOptions("stripe", SINCE), actor=DANA)

    assert [report.differences for report in await list_reports(conn)] == [0]


def test_an_adapter_is_found_by_the_name_of_its_provider():
    adapter = StripeCharges(API_KEY)
    register_adapter("stripe-test", adapter)
    try:
        assert find_adapter("stripe-test") is adapter
    finally:
        remove_adapter("stripe-test")

    with pytest.raises(NotFound, match="register_adapter"):
        find_adapter("stripe-test")
