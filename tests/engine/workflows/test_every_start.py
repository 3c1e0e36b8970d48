"""Policy judges every start of a workflow, whichever way it is started: all ways against all rules."""

import asyncio
from uuid import UUID

import pytest

from atlas.engine.enqueue_again import read_again
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.policy.rules import add_rule, remove_rule
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.store import add_trigger
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.declared.store import enable_workflow, save_workflow
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.engine.workflows.registry import registered_workflows, workflow
from atlas.engine.workflows.run_actions import fork_run, retry_run
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.workflow_catalog import publish_workflows
from atlas.errors import Conflict
from tests.engine.workflows.kit import APPROVER, REQUESTER
from tests.support import PROOF, some

TARGET = "start.target"
TRIGGER = {"label": "yearly", "trigger_type": "schedule", "cron_expr": "0 0 1 1 *", "workflow": TARGET}
started: list[UUID] = []
CHILD = {"id": "child", "workflow": TARGET, "with": {}}
DOCUMENTS = {
    "declared.parent": [CHILD],
    "declared.continuing": [CHILD | {"onFailure": "continue"}],
    "declared.each": [CHILD | {"each": [1]}],
    "declared.undoing": [
        {"id": "do", "job": "wf.double", "with": {"x": 1}, "onFailure": {"workflow": TARGET, "with": {}}},
        {"id": "fail", "needs": ["do"], "job": "wf.double", "with": {"x": "{{ steps.do.output.none }}"}},
    ],
}

# What is requested, by the way in which that starts the target.
ASKED = {
    "request": TARGET,
    "child in code": "start.parent",
    "child in a document": "declared.parent",
    "child whose failure is ignored": "declared.continuing",
    "child for each item": "declared.each",
    "child that undoes": "start.undoing",
    "child that undoes in a document": "declared.undoing",
}


async def note_start(id: str) -> None:
    started.append(UUID(id))


@workflow(TARGET)
async def target(run: Run, input: dict[str, bool]) -> None:
    """Counts its starts; fails where its input says so."""
    await run.step("begin", note_start, str(run.id))
    if input.get("fails"):
        raise PermanentError("as asked")


@workflow("start.parent")
async def parent(run: Run, input: dict[str, str]) -> dict[str, str]:
    await run.child("the child", TARGET)
    return {"child": "done"}


@workflow("start.failing_parent")
async def failing_parent(run: Run, input: dict[str, str]) -> None:
    await run.child("the child", TARGET, {"fails": True})


@workflow("start.side_by_side")
async def side_by_side(run: Run, input: dict[str, str]) -> None:
    await run.gather(run.child("one", TARGET), run.child("two", TARGET))


@workflow("start.undoing")
async def undoing(run: Run, input: dict[str, str]) -> None:
    run.on_failure("clean up", run.child, "clean up", TARGET)
    raise PermanentError("undo it")


class Starts:
    """The ways to start the target. `prepare` does what each needs before a rule is there."""

    def __init__(self, kit):
        self.kit = kit
        self.failed: UUID | None = None

    async def prepare(self, way):
        async with self.kit.pool.acquire() as conn:
            await publish_workflows(conn, registered_workflows().values(), by="test")
            for key, steps in DOCUMENTS.items():
                await save_workflow(conn, {"key": key, "steps": steps}, actor=REQUESTER)
        if way in ("retry of a run", "retry of a job", "retry of many", "fork", "enqueue again"):
            run = await self.kit.run(TARGET, {"fails": True})
            assert run.status == "failed"
            self.failed = run.id
        if way == "child of a retried run":
            self.failed = (await self.kit.run("start.failing_parent")).id
        started.clear()

    async def start(self, way):
        """Start it in this way and work until nothing is due."""
        async with self.kit.pool.acquire() as conn:
            match way:
                case _ if way in ASKED:
                    await self.kit.ask(ASKED[way])
                case "child of a retried run":
                    await retry_run(conn, self.failed, actor=REQUESTER)
                case "trigger":
                    made = await add_trigger(conn, SYSTEM_TENANT, TRIGGER, actor=REQUESTER)
                    await fire_now(conn, made.id, actor=REQUESTER)
                case "fork":
                    await fork_run(conn, self.failed, "begin", actor=REQUESTER)
                case "enqueue again":
                    tenant_id, again = await read_again(conn, self.failed)
                    assert isinstance(again, NewIntent)
                    await request_workflows(conn, tenant_id, [again], requested_by=REQUESTER)
                case "retry of a run":
                    await retry_run(conn, self.failed, actor=REQUESTER)
                case "retry of a job":
                    await retry_now(conn, self.failed, actor=REQUESTER)
                case "retry of many":
                    done = await begin_bulk_action(conn, "retry", actor=REQUESTER, ids=[self.failed])
                    if done.verdicts != {"retried": 1}:
                        raise Conflict(str(done.verdicts))
        await self.go_on()

    async def go_on(self):
        await self.kit.tick()
        await self.kit.work()

    async def began(self, way):
        """Whether the target was started: a retried run does its recorded steps no second time."""
        if way.startswith("retry"):
            return await self.kit.pool.fetchval("select attempt_count > 1 from atlas.jobs where id = $1", self.failed)
        if way == "fork":
            return await self.kit.pool.fetchval(
                "select count(*) = 1 from atlas.workflow_runs where forked_from is not null"
            )
        return bool(started)


REQUESTS = ("request", "fork", "enqueue again", "trigger")
CHILDREN = (
    "child in code",
    "child in a document",
    "child whose failure is ignored",
    "child for each item",
    "child that undoes",
    "child that undoes in a document",
    "child of a retried run",
)
RETRIES = ("retry of a run", "retry of a job", "retry of many")
WAYS = (*REQUESTS, *CHILDREN, *RETRIES)


@pytest.fixture
def starts(kit):
    return Starts(kit)


async def rule(kit, label="rule", **facts):
    async with kit.pool.acquire() as conn:
        await add_rule(conn, label=label, actor=APPROVER, workflow=TARGET, **facts)


@pytest.mark.parametrize("way", some(WAYS, every=3))
async def test_a_start_that_no_rule_is_against_begins(kit, starts, way):
    await starts.prepare(way)
    await rule(kit, effect="allow")
    await starts.start(way)
    assert await starts.began(way)


# Every way against a rule; which of the three forbids it is decided in one place.
BLOCKED = [(way, "a rule") for way in WAYS] + [
    (way, forbidden_by)
    for way in (WAYS if PROOF else (REQUESTS[0], CHILDREN[0], RETRIES[0]))
    for forbidden_by in ("a count", "the switch")
]


@pytest.mark.parametrize(("way", "forbidden_by"), some(BLOCKED, every=2))
async def test_a_start_that_is_blocked_does_not_begin(kit, starts, way, forbidden_by):
    await starts.prepare(way)
    if forbidden_by == "a rule":
        await rule(kit, effect="block")
    elif forbidden_by == "a count":
        await rule(kit, effect="block", runs_per_day=0)
    else:
        async with kit.pool.acquire() as conn:
            await enable_workflow(conn, TARGET, enabled=False, actor=APPROVER)
    if way in RETRIES:
        with pytest.raises(Conflict):
            await starts.start(way)
    else:
        await starts.start(way)
    assert not await starts.began(way)
    assert "INTENT_BLOCKED" in await kit.actions() or "CHILD_BLOCKED" in await kit.actions() or way in RETRIES


@pytest.mark.parametrize("way", some([*REQUESTS, *CHILDREN], every=3))
async def test_a_start_under_review_begins_when_a_person_approves_it(kit, starts, way):
    await starts.prepare(way)
    await rule(kit, effect="review")
    await starts.start(way)
    assert not await starts.began(way)
    [asked] = await list_approvals(kit.pool, status="pending")
    assert (asked.title, asked.subject["workflow"]) == (f"Start {TARGET}?", TARGET)

    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, True, actor=APPROVER)
    await starts.go_on()
    assert await starts.began(way)


@pytest.mark.parametrize("way", CHILDREN[:2])
async def test_a_child_whose_start_is_rejected_fails_its_step(kit, starts, way):
    await starts.prepare(way)
    await rule(kit, effect="review")
    await starts.start(way)
    [asked] = await list_approvals(kit.pool, status="pending")
    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, False, actor=APPROVER)
    await starts.go_on()

    run = await kit.get(asked.run_id)
    assert run.status == "failed"
    assert "grace rejected it" in run.error["message"]
    assert not started


@pytest.mark.parametrize("way", RETRIES)
async def test_a_retry_under_review_is_refused_unless_its_start_was_approved(kit, starts, way):
    await starts.prepare(way)
    await rule(kit, effect="review")
    with pytest.raises(Conflict):
        await starts.start(way)
    assert not await starts.began(way)

    asked_for = await kit.ask(TARGET, {"fails": True})
    await kit.tick()
    [asked] = await list_approvals(kit.pool, run_id=asked_for)
    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, True, actor=APPROVER)
    await kit.work()
    starts.failed = asked_for
    await starts.start(way)
    assert await starts.began(way)


async def test_a_retry_is_not_counted_as_another_run_of_the_day(kit, starts):
    await starts.prepare("retry of a run")
    await rule(kit, effect="block", runs_per_day=1)
    await starts.start("retry of a run")
    assert await starts.began("retry of a run")


async def test_runs_of_an_earlier_day_that_are_retried_together_are_counted_one_by_one(kit, starts):
    failed = [(await kit.run(TARGET, {"fails": True})).id for _ in range(3)]
    await kit.pool.execute("update atlas.intents set queued_at = queued_at - interval '2 days'")
    await rule(kit, effect="block", runs_per_day=2)
    async with kit.pool.acquire() as conn:
        done = await begin_bulk_action(conn, "retry", actor=REQUESTER, ids=failed)
    assert done.verdicts == {"blocked": 1, "retried": 2}


async def test_children_count_towards_the_runs_of_a_day(kit, starts):
    await starts.prepare("child in code")
    await rule(kit, effect="block", runs_per_day=2)
    for _ in range(3):
        await starts.start("child in code")
    blocked = await kit.ask(TARGET)
    await kit.tick()

    assert len(started) == 2
    assert (await list_intents(kit.pool, id=blocked))[0].status == "blocked"


async def test_children_that_start_at_the_same_moment_do_not_exceed_a_count(kit, starts):
    await starts.prepare("child in code")
    await rule(kit, effect="block", runs_per_day=3)
    asked = [await kit.ask("start.side_by_side") for _ in range(4)]
    await kit.tick()
    async with asyncio.timeout(60):
        await asyncio.gather(kit.work(), kit.work())

    assert len(started) == 3
    assert await kit.pool.fetchval("select count(*) from atlas.workflow_runs where parent_run_id is not null") == 3
    assert {(await kit.get(run_id)).status for run_id in asked} <= {"succeeded", "failed"}


async def test_a_child_runs_the_document_that_was_reviewed(kit, pool):
    def document(word):
        return {"key": "inner", "steps": [{"id": "do", "job": "wf.double", "with": {"x": word}}]}

    async with pool.acquire() as conn:
        await save_workflow(conn, document(1), actor=REQUESTER)
        outer = {"key": "outer", "steps": [{"id": "sub", "workflow": "inner", "with": {}}]}
        await save_workflow(conn, outer, actor=REQUESTER)
        await add_rule(conn, label="look", effect="review", workflow="inner", actor=APPROVER)
        run_id = await kit.ask("outer")
        await kit.tick()
        await kit.work()
        [asked] = await list_approvals(kit.pool, run_id=run_id)
        await save_workflow(conn, document(2), actor=REQUESTER)
        with pytest.raises(Conflict, match="version 1 and is version 2 now"):
            await decide_approval(conn, asked.id, True, actor=APPROVER)


async def test_a_tenant_s_own_rule_judges_its_children_only(kit, pool):
    async with pool.acquire() as conn:
        await add_rule(conn, label="mine", effect="block", workflow=TARGET, tenant_id=SYSTEM_TENANT, actor=APPROVER)
    started.clear()
    run = await kit.run("start.parent")
    assert (run.status, started) == ("failed", [])

    async with pool.acquire() as conn:
        await remove_rule(conn, "mine", tenant_id=SYSTEM_TENANT, actor=APPROVER)
    assert (await kit.run("start.parent")).status == "succeeded"
