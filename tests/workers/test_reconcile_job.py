"""The job type `effects.reconcile`: a worker reconciles a provider, for the one tenant that may."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from atlas.engine.effects.adapters import remove_adapter
from atlas.engine.effects.reconcile_job import RECONCILE, register_reconciliation
from atlas.engine.jobs import types
from atlas.integrations.effects.stripe import StripeCharges
from tests.integrations.effects.stripe_server import API_KEY, StripeServer

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
