"""Reconciliation with a worker: faults of a provider become doubts, which it settles; and the job `effects.reconcile`."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import orjson
import pytest

from atlas.engine.effects.adapters import remove_adapter
from atlas.engine.effects.effect_call import OpenEffect
from atlas.engine.effects.reconcile import ReconcileOptions, reconcile
from atlas.engine.effects.reconcile_job import RECONCILE, register_reconciliation
from atlas.engine.jobs.handlers import types
from atlas.engine.jobs.handlers.context import JobContext
from atlas.integrations.effects.stripe import StripeCharges
from atlas.workers.worker import Worker
from tests.integrations.effects.provider_server import Fault
from tests.integrations.effects.stripe_server import API_KEY, StripeServer
from tests.support import DANA, PROOF

JOBS = 10_000 if PROOF else 60
FAULTS = 2_000 if PROOF else 20
SEED = 20261118
JOB = "select status::text, output, error::text from atlas.jobs where id = $1"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    monkeypatch.setattr(types, "_registry", dict(types.registered()))
    yield
    remove_adapter("stripe")


@pytest.mark.usefixtures("registry")
async def test_a_job_of_the_tenant_that_may_reports_the_differences(pool: Any, given: Any, drain: Any) -> None:
    server = StripeServer()
    async with server.running():
        server.charge("unknown here")
        register_reconciliation("stripe", StripeCharges(API_KEY, url=server.url), tenant="system")
        [allowed] = await given(RECONCILE, {"provider": "stripe", "hours": 25})
        await drain(RECONCILE)
        register_reconciliation("stripe", StripeCharges(API_KEY, url=server.url), tenant="operators")
        [refused] = await given(RECONCILE, {"provider": "stripe"})
        await drain(RECONCILE)

    status, output, _ = await pool.fetchrow(JOB, allowed)
    assert (status, orjson.loads(output)["counts"]) == ("succeeded", {"not_here": 1})
    status, _, error = await pool.fetchrow(JOB, refused)
    assert status == "failed"
    assert "The jobs of tenant system may not reconcile stripe." in error


@pytest.mark.timeout(1800 if PROOF else 300)
@pytest.mark.usefixtures("registry")
async def test_every_fault_of_a_provider_is_a_doubt_and_what_was_made_is_settled_by_its_list(
    pool: Any, database_url: str, given: Any, options: Any
) -> None:
    server = StripeServer()
    chance = random.Random(SEED)
    planned: list[Fault | None] = [*chance.choices(get_args(Fault), k=FAULTS), *[None] * (JOBS - FAULTS)]
    chance.shuffle(planned)
    faults = iter(planned)
    since = datetime.now(UTC) - timedelta(hours=1)
    async with server.running():
        stripe = StripeCharges(API_KEY, url=server.url)

        @types.job("faulty.charge", max_retries=1, retry={"base": 0, "factor": 1, "jitter": 0})
        async def charge(input: dict[str, Any], ctx: JobContext) -> None:
            """Charges once, without a way to look it up: a doubt is for a person, or for reconciliation."""
            await ctx.effect("stripe.charge", call)

        async def call(effect: OpenEffect) -> str:
            fault = next(faults)
            server.faults_of[effect.key] = fault
            return await stripe.call(effect.key, amount=500, currency="eur")

        # No time limit: a busy machine takes minutes for all of them.
        worker = options("faulty.charge", drain=True)
        await given("faulty.charge", *[{}] * JOBS)
        await Worker(pool, database_url, worker).run()
        in_doubt = await pool.fetchval("select count(*) from atlas.effects where state = 'unknown'")
        report = await reconcile(pool, stripe, ReconcileOptions("stripe", since, settle=True), actor=DANA)
        await Worker(pool, database_url, worker).run()
        await stripe.close()

    happened = Counter(planned)
    made = happened["lost"] + happened["failed_after"]
    assert in_doubt == made + happened["cut"] + happened["failed"]
    # What the provider made is done now, and its job has ended. What it did not make waits for a person.
    assert (report.settled, report.in_doubt) == (made, happened["cut"] + happened["failed"])
    assert report.counts == {"twice": happened["twice"]}
    states = Counter(dict(await pool.fetch("select status::text, count(*) from atlas.jobs group by 1")))
    assert states == {"succeeded": JOBS - report.in_doubt, "queued": report.in_doubt}
    # Nobody was charged twice but by the provider itself.
    charges = Counter(charge["metadata"]["atlas_key"] for charge in server.charges)
    assert Counter(charges.values()) == {1: JOBS - report.in_doubt - happened["twice"], 2: happened["twice"]}
