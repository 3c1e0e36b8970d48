"""The test kit, used as users' own tests use it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import tests.workers.handlers  # noqa: F401  # registers the job types
from atlas import JobContext, NewJob, Run, enqueue_group, job, lifespan, request_workflow, workflow
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.errors import Conflict, InvalidInput, NotFound
from atlas.testing import AtlasKit
from atlas.workers.tick import tick
from tests.support import DANA

MAIL = {"to": "ada@example.com", "subject": "Hello", "text": "How are you?"}


@workflow("kit.two-questions")
async def two_questions(run: Run, input: dict) -> list[bool]:
    answers = await run.gather(run.approval("first", title="1?"), run.approval("second", title="2?"))
    return [bool(answer) for answer in answers]


@workflow("kit.waits")
async def waits(run: Run, input: dict) -> dict | None:
    return await run.wait_event("kit.rang")


@job("kit.requests")
async def requests(input: dict, ctx: JobContext) -> None:
    async with ctx.pool.acquire() as conn:
        await request_workflow(conn, SYSTEM_TENANT, "kit.two-questions", {}, DANA)


@pytest.fixture
async def kit(database_url):
    async with AtlasKit.open(database_url) as opened:
        yield opened


async def test_due_jobs_run_and_are_counted(kit):
    job_id = await kit.enqueue("test.double", {"n": 4})
    await kit.enqueue("test.raises", {"what": "permanent"})
    await kit.enqueue("test.noop", delay=timedelta(hours=1))

    counts = await kit.run_due_jobs()
    assert (counts.ran, counts.succeeded, counts.failed) == (2, 1, 1)
    assert (await kit.job(job_id)).output == {"n": 8}


async def test_time_passes_on_demand(kit):
    job_id = await kit.enqueue("test.raises", {"what": "later"})
    await kit.run_due_jobs()
    assert (await kit.run_due_jobs()).ran == 0
    await kit.let_time_pass(timedelta(minutes=6))
    assert (await kit.run_due_jobs()).ran == 1
    assert len(await kit.attempts(job_id)) == 2


async def test_groups_end_and_jobs_expire(kit):
    late = await kit.enqueue("test.noop", delay=timedelta(minutes=1), expires_in=timedelta(minutes=2))
    async with kit.pool.acquire() as conn:
        jobs = [NewJob("test.noop", {"n": n}) for n in range(3)]
        await enqueue_group(conn, jobs, then=NewJob("test.noop", {}), actor=DANA)
    assert (await kit.run_due_jobs()).succeeded == 4
    await kit.let_time_pass(timedelta(minutes=3))
    assert (await kit.job(late)).error["reason"] == "expired"


async def test_a_worker_that_dies_after_its_claim_loses_the_job_once(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.die_after_claim():
        assert (await kit.run_due_jobs()).ran == 1
    await kit.let_time_pass(timedelta(seconds=0))
    assert (await kit.job(job_id)).lost_count == 1
    await kit.let_time_pass(timedelta(seconds=5))
    assert (await kit.run_due_jobs()).succeeded == 1
    assert [attempt["status"] for attempt in await kit.attempts(job_id)] == ["lost", "succeeded"]


async def test_a_worker_that_died_a_month_ago_loses_the_job_once(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.die_after_claim():
        await kit.run_due_jobs()
    await kit.let_time_pass(timedelta(days=30))
    await kit.let_time_pass(timedelta(seconds=5))
    assert (await kit.run_due_jobs()).succeeded == 1
    assert [attempt["status"] for attempt in await kit.attempts(job_id)] == ["lost", "succeeded"]


async def test_a_lost_lease_refuses_the_outcome(kit):
    job_id = await kit.enqueue("test.double", {"n": 1})
    with kit.lose_lease():
        assert (await kit.run_due_jobs(limit=1)).succeeded == 0
    assert (await kit.job(job_id)).status == "running"
    await kit.let_time_pass(timedelta(seconds=0))
    assert (await kit.job(job_id)).lost_count == 1


async def test_without_notifications_everything_still_runs(kit):
    await kit.enqueue("test.noop")
    with kit.drop_notifications():
        assert (await kit.run_due_jobs()).succeeded == 1


async def test_a_tick_runs_at_most_what_it_may(kit):
    for _ in range(7):
        await kit.enqueue("test.noop")
    assert (await tick(kit.pool, kit.url, limit=5)).succeeded == 5
    assert (await tick(kit.pool, kit.url, limit=5)).succeeded == 2
    assert (await tick(kit.pool, kit.url, limit=5)).ran == 0


async def test_mails_are_kept_and_never_sent(monkeypatch, database_url):
    monkeypatch.setenv("OUTBOUND_EMAIL_PROVIDER", "resend")
    monkeypatch.setenv("RESEND_API_KEY", "re_of_production")
    monkeypatch.setenv("RESEND_API_URL", "http://127.0.0.1:9")
    async with AtlasKit.open(database_url) as kit:
        tenant_id = await kit.add_tenant("demo")
        first = await kit.enqueue("EMAIL_SEND", MAIL)
        second = await kit.enqueue("EMAIL_SEND", {**MAIL, "subject": "Again"}, tenant_id=tenant_id)
        assert (kit.mails(), (await kit.run_due_jobs()).succeeded) == ([], 2)

        assert sorted(mail["Subject"] for mail in kit.mails()) == ["Again", "Hello"]
        assert [mail["Subject"] for mail in kit.mails("demo")] == ["Again"]
        assert (kit.mail(first)["To"], kit.mail(second)["Subject"]) == ("ada@example.com", "Again")
    async with AtlasKit.open(database_url) as kit:
        assert kit.mails() == []
        with pytest.raises(NotFound):
            kit.mail(first)


async def test_a_question_is_decided_by_its_step(kit):
    run_id = await kit.start_workflow("kit.two-questions")
    with pytest.raises(NotFound, match="draft: not decided yet. `run_due_jobs` starts"):
        await kit.run(run_id)
    with pytest.raises(Conflict, match="asks for nothing"):
        await kit.approve(run_id)
    await kit.run_due_jobs()
    with pytest.raises(Conflict, match="Name its step"):
        await kit.approve(run_id)
    names = list(await kit.steps(run_id))
    await kit.approve(run_id, names[0])
    await kit.reject(run_id, comment="no")
    await kit.run_due_jobs()
    assert (await kit.run(run_id)).output == [True, False]


async def test_a_run_that_waits_for_no_time_still_does_after_a_year(kit):
    run_id = await kit.start_workflow("kit.waits")
    await kit.run_due_jobs()
    await kit.let_time_pass(timedelta(days=400))
    waiting = await kit.run(run_id)
    assert (waiting.status, waiting.wakes_at) == ("waiting", None)
    assert await kit.publish_event("kit.rang", {"who": "ada"}) == 1
    await kit.run_due_jobs()
    assert (await kit.run(run_id)).output == {"who": "ada"}


async def test_a_question_expires(kit):
    run_id = await kit.start_workflow("kit.two-questions")
    await kit.run_due_jobs()
    await kit.let_time_pass(timedelta(days=8))
    await kit.run_due_jobs()
    assert (await kit.run(run_id)).output == [False, False]


async def test_a_workflow_that_a_job_asks_for_runs_as_well(kit):
    await kit.enqueue("kit.requests")
    assert (await kit.run_due_jobs()).succeeded == 1
    assert await kit.pool.fetchval("select count(*) from atlas.approvals") == 2


async def test_an_unknown_job_type_or_workflow_is_refused(kit):
    with pytest.raises(InvalidInput, match="test.dubble"):
        await kit.enqueue("test.dubble")
    with pytest.raises(InvalidInput, match="kit.two-question"):
        await kit.start_workflow("kit.two-question")


class Carrier:
    name = "the real one"


opened: list[str] = []


@lifespan
async def carrier() -> AsyncIterator[Carrier]:
    opened.append("carrier")
    yield Carrier()


@job("kit.ships")
async def ships(input: dict[str, Any], carrier: Carrier) -> str:
    return carrier.name


async def test_a_value_of_the_test_takes_the_place_of_what_a_lifespan_yields(kit):
    opened.clear()
    stand_in = Carrier()
    stand_in.name = "a stand-in"
    kit.provide(stand_in)
    job_id = await kit.enqueue("kit.ships")
    await kit.run_due_jobs()

    assert (await kit.job(job_id)).output == "a stand-in"
    assert opened == []
