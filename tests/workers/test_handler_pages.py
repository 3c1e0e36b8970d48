"""The pages about handlers: their examples run as they stand there."""

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from atlas.engine import code_schedules
from atlas.engine.jobs.find import get_job, list_attempts
from atlas.engine.jobs.types import registered
from atlas.engine.triggers.find import list_triggers
from atlas.engine.triggers.from_code import sync_code_schedules
from atlas.engine.workflows.registry import registered_workflows
from atlas.workers import lifespan
from tests.support import ROOT, given_tenant

pytestmark = pytest.mark.usefixtures("default_logs")


@pytest.fixture
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The module that all Python of a page is together. What it registers does not reach other tests."""
    # A process sets it once.
    monkeypatch.setattr("opentelemetry.trace.set_tracer_provider", lambda provider: provider.shutdown())
    monkeypatch.setattr(lifespan, "_registry", {})
    monkeypatch.setattr(code_schedules, "_declared", {})
    before = {*registered()}, {*registered_workflows()}
    text = (ROOT / "docs" / request.param).read_text()
    names = {"__name__": "shop.jobs"}
    for example in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(example, request.param, "exec"), names)
    yield SimpleNamespace(**names)
    for registry, kept in zip((registered(), registered_workflows()), before, strict=True):
        for key in set(registry) - kept:
            del registry[key]


@pytest.mark.parametrize("page", ["handlers.md"], indirect=True)
async def test_the_examples_of_the_page_about_handlers_run(page, pool, given, drain):
    async with pool.acquire() as conn:
        await given_tenant(conn, "demo")
    [shipped] = await given("order.ship", {"number": 7})
    indexed, refused = await given("order.index", {"number": 8}, {"number": -1}, max_retries=0)
    await drain("order.ship", "order.index", "report.daily")
    assert (await get_job(pool, shipped)).output == {"carrier": "https://carrier.example"}
    assert "shipping number=7" in (await list_attempts(pool, shipped))[0]["log_tail"]
    assert (await get_job(pool, indexed)).output == {"indexed": 8}
    assert (await get_job(pool, refused)).error["message"] == "ValueError: no such order"
    await sync_code_schedules(pool)
    async with pool.acquire() as conn:
        found = [(one.spec.target, one.spec.cron_expr, one.zone) for one in await list_triggers(conn)]
    assert found == [
        (("job_type", "report.daily"), "0 7 * * *", "Europe/Berlin"),
        (("workflow", "stock.check"), "*/10 * * * *", "UTC"),
    ]


@pytest.mark.parametrize("page", ["observability.md"], indirect=True)
async def test_the_examples_of_the_page_about_logs_and_traces_run(page, pool, given, drain):
    [job_id] = await given("report.build", {"month": 3})
    await drain("report.build")
    kept = (await list_attempts(pool, job_id))[0]["log_tail"].splitlines()
    assert [line.split(" ", 1)[1] for line in kept] == [
        "info building month=3",
        "warning shop.jobs: page 7 has no title",
    ]
