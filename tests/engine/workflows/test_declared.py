"""Declared workflows: checked when saved, kept by version, run like code."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import orjson
import pytest

from atlas.engine import helper_process
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.policy.judge import check_policy
from atlas.engine.templates import render
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.declared import interpret, template_turns
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.examples import example_workflows, load_examples
from atlas.engine.workflows.declared.store import enable_workflow, known_document, save_workflow
from atlas.engine.workflows.declared.template_turns import Filling
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.run_actions import retry_run
from atlas.engine.workflows.workflow_catalog import publish_workflows
from atlas.errors import InvalidInput
from tests.engine.workflows.flows import calls
from tests.engine.workflows.kit import APPROVER, REQUESTER
from tests.support import forget_compiled, some

sent: list[dict[str, Any]] = []


@job("wf.mail")
async def mail(input: dict[str, Any]) -> dict[str, Any]:
    """Stands in for EMAIL_SEND, which has its own tests."""
    if input["to"].startswith("nobody"):
        raise PermanentError("no such address")
    sent.append(input)
    return {"to": input["to"]}


@pytest.fixture(autouse=True)
def nothing_sent():
    sent.clear()
    calls.clear()


async def save(kit, document, **options):
    async with kit.pool.acquire() as conn:
        return await save_workflow(conn, document, actor=APPROVER, **options)


def with_test_mails(document: Any) -> Any:
    """The document with mails that stay in this process."""
    if isinstance(document, dict):
        return {key: with_test_mails(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_test_mails(value) for value in document]
    return "wf.mail" if document == "EMAIL_SEND" else document


def example(key: str) -> dict[str, Any]:
    found = next(workflow for workflow in example_workflows() if workflow["key"] == key)
    return with_test_mails(found)


def doc(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"key": "d", "steps": list(steps), **more}


async def test_outputs_flow_from_step_to_step_and_keep_their_types(kit):
    await save(
        kit,
        doc(
            {"id": "a", "job": "wf.double", "with": {"x": "{{ input.x }}"}},
            {"id": "b", "job": "wf.double", "with": {"x": "{{ steps.a.output.value }}"}, "needs": ["a"]},
            {"id": "c", "job": "wf.double", "with": {"x": 5}},
            output={"b": "{{ steps.b.output.value }}", "c": "{{ steps.c.output }}", "who": "{{ run.requested_by }}"},
        ),
    )
    run = await kit.run("d", {"x": 3})

    assert (run.status, run.version) == ("succeeded", 1)
    assert run.output == {"b": 12, "c": {"value": 10}, "who": "ada"}
    assert set(await kit.steps(run.id)) == {"a", "b", "c"}


async def test_steps_are_skipped_with_those_that_need_them_and_last_outputs_are_the_output(kit):
    await save(
        kit,
        doc(
            {"id": "a", "if": "input.x > 5", "job": "wf.double", "with": {"x": 1}},
            {"id": "b", "needs": ["a"], "job": "wf.double", "with": {"x": "{{ steps.a.output.value }}"}},
            {"id": "c", "if": False, "sleep": 1},
            {"id": "d", "job": "wf.double", "with": {"x": 2}},
        ),
    )
    run = await kit.run("d", {"x": 3})

    assert run.output == {"d": {"value": 4}}
    assert calls["double"] == 1


async def test_a_step_may_be_called_undo(kit):
    release = {"job": "wf.double", "with": {"x": "{{ steps.undo.output.value }}"}}
    await save(
        kit,
        doc(
            {"id": "undo", "job": "wf.double", "with": {"x": 1}, "onFailure": release},
            {"id": "b", "needs": ["undo"], "if": "{{ input.fail }}", "job": "wf.refuse"},
        ),
    )
    well = await kit.run("d", {"fail": False})
    failed = await kit.run("d", {"fail": True})

    assert well.status == "succeeded", well.error
    assert (failed.status, failed.error["compensated"]) == ("failed", ["undo-/undo"])


@pytest.mark.parametrize(
    ("template", "undone"),
    [
        ("undo {{ item }}, {{ steps.a.output[index].to }}", ["undo 2, b", "undo 1, a"]),
        ("undo {{ steps.a.output | length }}", ["undo 2"]),
    ],
)
async def test_a_step_for_each_item_is_undone_item_by_item_if_its_undoing_names_them(kit, template, undone):
    steps = [
        {
            "id": "a",
            "each": [1, 2],
            "job": "wf.mail",
            "with": {"to": "{{ 'ab'[index] }}"},
            "onFailure": {"job": "wf.mail", "with": {"to": template}},
        },
        {"id": "b", "needs": ["a"], "job": "wf.refuse"},
    ]
    await save(kit, doc(*steps))
    run = await kit.run("d")

    assert run.error["message"] == "Step 'b' failed: no stock"
    assert [one["to"] for one in sent][2:] == undone


async def test_the_items_that_succeeded_are_undone_when_another_item_fails(kit):
    undo = {"job": "wf.mail", "with": {"to": "undo {{ item }} of {{ steps.a.output | length }}"}}
    step = {"id": "a", "each": ["ada", "nobody", "bob"], "job": "wf.mail", "with": {"to": "{{ item }}"}}
    await save(kit, doc({**step, "onFailure": undo}))
    run = await kit.run("d")

    assert run.error["message"] == "Step 'a' failed: no such address"
    assert [one["to"] for one in sent][2:] == ["undo bob of 3", "undo ada of 3"]
    assert run.error["compensated"] == ["a/a#3", "a/a"]


async def test_a_step_for_each_item_runs_side_by_side(kit):
    await save(
        kit,
        doc(
            {"id": "a", "each": "{{ input.items }}", "job": "wf.double", "with": {"x": "{{ item.n + index }}"}},
            output="{{ steps.a.output }}",
        ),
    )
    run = await kit.run("d", {"items": [{"n": 10}, {"n": 20}, {"n": 30}]})

    assert run.output == [{"value": 20}, {"value": 42}, {"value": 64}]
    assert set(await kit.steps(run.id)) == {f"a/each[{n}]/a" for n in range(3)}


async def test_a_failure_may_be_passed_over_or_end_the_run(kit):
    steps = [
        {"id": "a", "job": "wf.refuse", "onFailure": "continue"},
        {"id": "b", "needs": ["a"], "job": "wf.double", "with": {"x": "{{ 2 if steps.a.status == 'failed' else 3 }}"}},
    ]
    await save(kit, doc(*steps))
    passed = await kit.run("d")
    await save(kit, doc({"id": "a", "job": "wf.refuse"}, steps[1]))
    ended = await kit.run("d")

    assert passed.output == {"b": {"value": 4}}
    assert (ended.status, ended.version) == ("failed", 2)
    assert "no stock" in ended.error["message"]


async def test_sleep_event_and_child_wait_without_a_worker(kit):
    await save(
        kit,
        doc(
            {"id": "nap", "sleep": "{{ input.nap }}"},
            {"id": "paid", "needs": ["nap"], "event": "paid", "with": {"order": "{{ input.order }}"}, "timeout": "1h"},
            {"id": "kid", "needs": ["paid"], "workflow": "wf.plain", "with": {"cents": "{{ event.cents }}"}},
            output={"kid": "{{ steps.kid.output }}", "cents": "{{ steps.paid.output.cents }}"},
        ),
    )
    run = await kit.run("d", {"nap": "10m", "order": 4})
    assert run.status == "waiting"
    await kit.pass_time(timedelta(minutes=11))
    await kit.work()
    async with kit.pool.acquire() as conn:
        await publish_event(conn, SYSTEM_TENANT, "paid", {"order": 4, "cents": 9}, actor=REQUESTER)
    await kit.work()

    assert (await kit.get(run.id)).output == {"kid": "one two", "cents": 9}


async def test_an_event_that_does_not_come_fails_the_step_and_retry_waits_anew(kit):
    await save(kit, doc({"id": "paid", "event": "paid", "timeout": "1h"}))
    run = await kit.run("d")
    await kit.pass_time(timedelta(hours=2))
    await kit.work()
    assert (await kit.get(run.id)).error["message"] == "Step 'paid' failed: No event came in time."

    async with kit.pool.acquire() as conn:
        await retry_run(conn, run.id, actor=APPROVER)
        await publish_event(conn, SYSTEM_TENANT, "paid", {}, actor=REQUESTER)
    await kit.work()

    assert (await kit.get(run.id)).status == "succeeded"


async def test_a_running_run_keeps_its_version(kit):
    old = doc({"id": "nap", "sleep": "1m"}, {"id": "a", "needs": ["nap"], "job": "wf.double", "with": {"x": 1}})
    first = await save(kit, old)
    run = await kit.run("d")
    second = await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": 100}}))
    again = await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": 100}}))
    await kit.pass_time(timedelta(minutes=2))
    await kit.work()
    newer = await kit.run("d")

    assert ((await kit.get(run.id)).output, newer.output) == ({"a": {"value": 2}}, {"a": {"value": 200}})
    assert (first.version, second.version, again.version, again.is_new) == (1, 2, 2, False)


async def test_a_disabled_workflow_stays_so_when_a_new_version_is_saved(kit):
    await save(kit, doc({"id": "a", "sleep": 0}))
    async with kit.pool.acquire() as conn:
        await enable_workflow(conn, "d", enabled=False, actor=APPROVER)
        newer = await save(kit, doc({"id": "b", "sleep": 0}))
        disabled = await check_policy(conn, SYSTEM_TENANT, "d")
        await enable_workflow(conn, "d", enabled=True, actor=APPROVER)
        await save(kit, doc({"id": "c", "sleep": 0}))
        enabled = await check_policy(conn, SYSTEM_TENANT, "d")

    assert (newer.version, disabled.effect, enabled.effect) == (2, "block", "allow")


async def test_a_tenants_own_workflow_that_is_disabled_gives_no_way_to_everyones(kit):
    await save(kit, doc({"id": "a", "sleep": 0}))
    await save(kit, doc({"id": "b", "sleep": 0}), tenant_id=SYSTEM_TENANT)
    async with kit.pool.acquire() as conn:
        other = await add_tenant(conn, slug="other", name="Other", actor=APPROVER)
        await enable_workflow(conn, "d", enabled=False, actor=APPROVER, tenant_id=SYSTEM_TENANT)
        own = await check_policy(conn, SYSTEM_TENANT, "d")
        theirs = await check_policy(conn, other.id, "d")
        await enable_workflow(conn, "d", enabled=True, actor=APPROVER, tenant_id=SYSTEM_TENANT)
        await enable_workflow(conn, "d", enabled=False, actor=APPROVER)
        again = await check_policy(conn, SYSTEM_TENANT, "d")

    assert (own.effect, theirs.effect, again.effect) == ("block", "allow", "allow")


async def test_a_document_saved_under_the_key_of_disabled_code_is_disabled_too(kit):
    async with kit.pool.acquire() as conn:
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        await enable_workflow(conn, "wf.plain", enabled=False, actor=APPROVER)
        saved = await save(kit, {**doc({"id": "a", "sleep": 0}), "key": "wf.plain"})
        disabled = await check_policy(conn, SYSTEM_TENANT, "wf.plain")
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        still = await check_policy(conn, SYSTEM_TENANT, "wf.plain")

    assert (saved.version, disabled.effect, still.effect) == (1, "block", "block")


async def test_a_tenants_own_workflow_comes_before_everyones(kit):
    await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": 1}}))
    await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": 2}}), tenant_id=SYSTEM_TENANT)
    async with kit.pool.acquire() as conn:
        other = await add_tenant(conn, slug="other", name="Other", actor=APPROVER)
        listed = await list_workflows(conn, tenant_id=other.id)
    run = await kit.run("d")

    assert run.output == {"a": {"value": 4}}
    assert [one.tenant_id for one in listed if one.key == "d"] == [None]


async def test_a_run_does_not_get_another_tenants_document(kit, owner):
    async with kit.pool.acquire() as conn:
        other = await add_tenant(conn, slug="other", name="Other", actor=APPROVER)
    theirs = await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": 1}}), tenant_id=other.id)
    await save(kit, doc({"id": "a", "sleep": 0}))
    run_id = await kit.ask("d")
    await kit.tick()
    await owner.execute(
        "update atlas.jobs set input = input || jsonb_build_object('documentId', $2::text) where id = $1",
        run_id,
        str(theirs.id),
    )
    await kit.work()

    run = await kit.get(run_id)
    assert run.status == "failed"
    assert "is gone" in run.error["message"]
    assert known_document(theirs.id, SYSTEM_TENANT) is None


async def test_an_input_that_does_not_fit_the_schema_fails_the_run(kit):
    schema = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
    await save(kit, doc({"id": "a", "sleep": 0}, inputSchema=schema))
    run = await kit.run("d", {"x": "no"})

    assert run.status == "failed"
    assert "x: " in run.error["message"]


ELSEWHERE = [
    {"$ref": "http://127.0.0.1:{port}/schema"},
    {"properties": {"x": {"$ref": "file:///etc/hostname"}}},
    {"$dynamicRef": "http://127.0.0.1:{port}/schema"},
    {"$schema": "http://127.0.0.1:{port}/schema"},
]


async def listener() -> tuple[asyncio.Server, int, list[bytes]]:
    """A server that notes who calls it."""
    asked: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize("schema", ELSEWHERE)
async def test_a_schema_that_names_another_address_is_refused_and_not_fetched(schema):
    server, port, asked = await listener()
    async with server:
        schema = orjson.loads(orjson.dumps(schema).replace(b"{port}", str(port).encode()))
        found = await asyncio.to_thread(check_document, doc({"id": "a", "sleep": 0}, inputSchema=schema))

    assert [error.field.split(".")[0] for error in found] == ["inputSchema"]
    assert asked == []


async def test_a_stored_schema_that_names_another_address_fails_the_run_and_is_not_fetched(kit, owner):
    server, port, asked = await listener()
    await save(kit, doc({"id": "a", "sleep": 0}))
    stored = doc({"id": "a", "sleep": 0}, inputSchema={"$ref": f"http://127.0.0.1:{port}/schema"})
    await owner.execute("update atlas.workflows set document = $1 where key = 'd'", orjson.dumps(stored).decode())
    async with server:
        run = await kit.run("d")

    assert run.status == "failed"
    assert asked == []


async def test_a_pattern_is_matched_in_linear_time_or_refused(kit):
    patterns = [check_document(doc(STEP, inputSchema={"pattern": one})) for one in ("^(a+)+$", "^(?!x)(a+)+$")]

    assert [bool(found) for found in patterns] == [False, True]


async def test_a_template_that_cannot_be_filled_in_fails_the_run_with_its_path(kit):
    await save(kit, doc({"id": "a", "job": "wf.double", "with": {"x": "{{ input.absent }}"}}))
    run = await kit.run("d")

    assert "steps.a.with.x: {{ input.absent }}: there is no 'absent'" in run.error["message"]


@pytest.mark.parametrize("value", some([[1], None, True, {"a": 1}, "", -1], every=3))
async def test_what_is_no_time_to_sleep_for_fails_the_run_with_the_step(kit, value):
    await save(kit, doc({"id": "a", "sleep": "{{ input.for }}"}))
    run = await kit.run("d", {"for": value})

    assert run.status == "failed"
    assert run.error["message"] == f"Step 'a': {value!r} is neither a duration nor a time."


@pytest.fixture
async def holds():
    """How long the event loop was held between two turns of it, each time, in seconds of work."""
    found: list[float] = []

    async def watch() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            found.append(time.thread_time() - began)

    watcher = asyncio.create_task(watch())
    yield found
    watcher.cancel()


def heavy(times: int) -> dict[str, Any]:
    """A step whose template takes some milliseconds for each item."""
    expression = f"{{{{ (input.text{' | split | sort | join' * times} | length) * 0 + item }}}}"
    return {"id": "a", "each": "{{ input.items }}", "job": "wf.double", "with": {"x": expression}}


@pytest.mark.long
async def test_templates_that_take_too_much_together_end_their_own_run(kit, monkeypatch, holds):
    monkeypatch.setattr(template_turns, "MAX_WORK", 32 * 1024 * 1024)
    undo = {"job": "wf.double", "with": {"x": 7}}
    steps = [{"id": "first", "job": "wf.double", "with": {"x": 1}, "onFailure": undo}, {**heavy(3), "needs": ["first"]}]
    await save(kit, doc(*steps))
    run = await kit.run("d", {"text": "ab " * 8_000, "items": [*range(30)]})

    assert run.status == "failed"
    assert run.error["message"].startswith("The templates of the run take too much work together.")
    assert run.error["compensated"] == ["first/first"]
    assert max(holds) < 1.5


@pytest.mark.long
async def test_what_is_to_be_undone_is_known_although_the_templates_took_too_much(kit, monkeypatch):
    monkeypatch.setattr(template_turns, "MAX_WORK", 32 * 1024 * 1024)
    undo = {"job": "wf.double", "with": {"x": "{{ item }}"}}
    steps = [
        {"id": "w", "sleep": "1h"},
        {**heavy(3), "needs": ["w"]},
        {"id": "pay", "each": [1, 2], "job": "wf.double", "with": {"x": "{{ item }}"}, "onFailure": undo},
    ]
    await save(kit, doc(*steps))
    run = await kit.run("d", {"text": "ab " * 8_000, "items": [*range(30)]})
    # Both have paid, whatever was faster.
    await kit.pass_time(timedelta(hours=1))
    await kit.work()
    run = await kit.get(run.id)

    assert run.error["message"].startswith("The templates of the run take too much work together.")
    assert run.error["compensated"] == ["pay/pay#2", "pay/pay"]


@pytest.mark.long
async def test_the_event_loop_gets_its_turn_between_templates(kit, holds):
    step, input = heavy(1), {"text": "ab " * 25_000, "items": [*range(16)]}
    began = time.thread_time()
    render(step["with"], {"input": input, "item": 0})
    one = time.thread_time() - began
    await save(kit, doc(step))
    run_ids = [await kit.ask("d", input) for _ in range(2)]
    await kit.tick()
    await kit.work()

    assert [(await kit.get(run_id)).status for run_id in run_ids] == ["succeeded"] * 2
    assert max(holds) < 10 * one  # and not 32


@pytest.mark.long
async def test_a_large_input_and_a_large_template_leave_the_event_loop_to_others(kit, holds):
    """In one go, the input takes 0.5 s to check, and the template 0.6 s to compile."""
    parts = [*({"const": number} for number in range(300)), {"type": "integer"}]
    expressions = [f"{{{{ {number}" + " | d" * 20 + " }}" for number in range(180)]
    step = {"id": "a", "job": "wf.double", "with": {"x": 1, "of": expressions}}
    await save(kit, doc(step, inputSchema={"properties": {"of": {"items": {"anyOf": parts}}}}))
    run_id = await kit.ask("d", {"of": [*range(1000, 9000)]})
    await kit.tick()
    forget_compiled()
    holds.clear()
    await kit.work()

    assert (await kit.get(run_id)).status == "succeeded"
    print(f"longest hold {max(holds) * 1000:.0f} ms")
    # Half of either: a processor that others use too is slower.
    assert max(holds) < 0.25


async def test_an_input_that_cannot_be_checked_in_time_fails_its_run(kit, monkeypatch):
    monkeypatch.setattr(helper_process, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(interpret, "HELPERS", helper_process.HelperPool(1))
    both = [{"properties": {"of": {"$ref": "#/$defs/a"}}, "required": ["of"]}] * 2
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": both}}}
    input: dict[str, Any] = {}
    for _ in range(30):
        input = {"of": input}
    await save(kit, doc(STEP, inputSchema=schema))
    run = await kit.run("d", input)

    assert (run.status, run.error["type"]) == ("failed", "HelperFailed")
    assert "Checking took more than" in run.error["message"]


async def test_a_step_that_is_recorded_is_not_filled_in_again(kit, monkeypatch):
    paths: list[str] = []
    fill = Filling.fill

    async def filled(self: Filling, template: Any, scope: Any, path: str, **options: Any) -> Any:
        paths.append(path)
        return await fill(self, template, scope, path, **options)

    monkeypatch.setattr(Filling, "fill", filled)
    steps = [{"id": "a", "each": [1, 2, 3], "job": "wf.double", "with": {"x": "{{ item }}"}}]
    steps += [{"id": "b", "needs": ["a"], "workflow": "wf.exhausts", "with": {"x": "{{ input.x }}"}, "retries": 2}]
    await save(kit, doc(*steps))
    run = await kit.run("d", {"x": 1})

    assert "Step 'b#3' failed" in run.error["message"]
    assert (paths.count("steps.a.with"), paths.count("steps.b.with")) == (3, 3)


STEP = {"id": "a", "sleep": 1}


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        ({"steps": [STEP]}, "key", "Field required"),
        ({"key": "d"}, "steps", "Field required"),
        (doc(), "steps", "at least 1 item"),
        (doc(STEP, colour="red"), "colour", "is not a field of a workflow"),
        (doc({**STEP, "colour": "red"}), "steps[0].colour", "is not a field of a workflow"),
        (doc({"id": "a b", "sleep": 1}), "steps[0].id", "should match pattern"),
        (doc(STEP, STEP), "steps[1].id", "is the id of steps[0] too"),
        (doc(*({"id": f"s{n}", "sleep": "{{ 1 }}"} for n in range(1001))), "", "contains more than 1,000 {{ }}"),
        (doc({"id": "a"}), "steps[0]", "needs exactly one of"),
        (doc({**STEP, "job": "x"}), "steps[0]", "it has job and sleep"),
        (doc({**STEP, "needs": ["b"]}), "steps[0].needs[0]", "there is no step 'b'"),
        (doc({**STEP, "needs": ["a"]}), "steps", "a → a"),
        (
            doc(
                {**STEP, "needs": ["c"]},
                {"id": "b", "needs": ["a"], "sleep": 1},
                {"id": "c", "needs": ["b"], "sleep": 1},
            ),
            "steps",
            "a → c → b → a",
        ),
        (
            doc({"id": "a", "job": "x", "with": {"y": ["{{ inptu.z }}"]}}),
            "steps[0].with.y[0]",
            "'inptu' is not defined",
        ),
        (doc({"id": "a", "job": "x", "with": {"y": "{{ input. }}"}}), "steps[0].with.y", ""),
        (doc({"id": "a", "job": "x", "with": {"y": "{% if 1 %}"}}), "steps[0].with.y", "statement"),
        (doc({"id": "a", "job": "x", "with": {"y": "{{ item }}"}}), "steps[0].with.y", "'item' is not defined"),
        (doc({"id": "a", "job": "x", "with": {"y": "{{ event.z }}"}}), "steps[0].with.y", "'event' is not defined"),
        (
            doc(STEP, {"id": "b", "job": "x", "needs": ["a"], "with": {"y": "{{ steps.c.output }}"}}),
            "steps[1].with.y",
            "reads step 'c', which it does not need",
        ),
        (doc(STEP, {"id": "b", "needs": ["a"], "if": "steps.z", "sleep": 1}), "steps[1].if", "reads step 'z'"),
        (doc({**STEP, "timeout": "1h"}), "steps[0].timeout", "does not apply to sleep steps"),
        (doc({"id": "a", "event": "e", "timeout": "soon"}), "steps[0].timeout", "is neither seconds nor"),
        (doc({"id": "a", "event": "e", "retries": 1}), "steps[0].retries", "does not apply to event steps"),
        (doc({"id": "a", "sleep": "soon"}), "steps[0].sleep", "is neither seconds"),
        (doc({"id": "a", "sleep": "600000w"}), "steps[0].sleep", "is neither seconds"),
        (doc({"id": "a", "approval": "x", "timeout": "600000w"}), "steps[0].timeout", "of up to 100 years"),
        (doc({"id": "a", "job": "x", "with": {"y": "\0"}}), "", "U+0000"),
        (doc(STEP, key="d\0"), "", "U+0000"),
        (doc(STEP, key=" "), "key", "must not be empty"),
        (doc(STEP, key="a\nb"), "key", "line breaks or control characters"),
        (doc(STEP, key="a\u202eb"), "key", "line breaks or control characters"),
        (doc(STEP, key="a/b"), "key", "a slash"),
        (doc(STEP, key=".."), "key", "begin with a dot"),
        (doc({"id": "a", "job": "ENGINE_RUN"}), "steps[0].job", "ask for the workflow by its name"),
        (
            doc({"id": "a", "job": "x", "onFailure": {"job": "ENGINE_RUN"}}),
            "steps[0].onFailure.job",
            "ask for the workflow by its name",
        ),
        (doc({"id": "a", "job": "x", "retries": -1}), "steps[0].retries", "greater than or equal to 0"),
        (doc({"id": "a", "job": "x", "onFailure": "explode"}), "steps[0].onFailure", ""),
        (
            doc({"id": "a", "job": "x", "onFailure": {"with": {}}}),
            "steps[0].onFailure",
            "exactly one of job and workflow",
        ),
        (doc(STEP, inputSchema={"type": "nonsense"}), "inputSchema", "is not JSON Schema"),
        (
            doc(STEP, inputSchema={"type": "object", "properties": {"key": {"type": "string", "x-secret": True}}}),
            "inputSchema",
            "as secret",
        ),
        (doc(STEP, output="{{ steps.b.output }}"), "output", "reads step 'b'"),
        ({"key": "d", "steps": [STEP], "description": "x" * 300_000}, "", "larger than"),
        ([], "", ""),
    ],
)
def test_every_mistake_is_named_with_its_path(document, path, words):
    errors = check_document(document)

    assert any(error.field.startswith(path) and words in error.reason for error in errors), errors


def test_what_is_wrong_in_every_step_hides_nothing_else_and_is_not_called_an_empty_list():
    steps = [{"id": "a", "job": "x", "after": ["b"]}, {"id": "b", "kind": "job"}]

    errors = check_document(doc(*steps, key="a/b", output="{{ steps.z.output }}"))

    assert [error.field for error in errors] == ["steps[0].after", "steps[1].kind", "key", "steps[1]", "output"]


def test_a_mistake_hides_none_of_the_others_in_its_step_and_brings_none_of_its_own():
    errors = check_document(
        doc(
            {"id": "a", "job": "x", "foo": 1, "timeout": "soon", "with": {"y": "{{ input. }}"}},
            {"id": "a", "sleep": "soon", "needs": ["b c"]},
            {
                "id": "b c",
                "job": "x",
                "needs": ["a", "z"],
                "with": {"y": "{{ steps.a.output }}", "z": "{{ steps.q.output }}"},
            },
            {"id": "d", "sleep": 1, "needs": ["b c", "e"]},
            {"id": "e", "sleep": 1, "needs": ["d"]},
        )
    )

    assert [error.field for error in errors] == [
        *("steps[0].foo", "steps[1].needs[0]", "steps[2].id", "steps[3].needs[0]", "steps[1].id", "steps[2].needs[1]"),
        *("steps[0].timeout", "steps[0].with.y", "steps[1].sleep", "steps[2].with.z"),
    ]


def test_a_circle_and_a_step_of_two_kinds_hide_no_other_mistake_in_their_steps():
    errors = check_document(
        doc(
            {"id": "a", "job": "x", "needs": ["b"], "with": {"y": "{{ input. }}", "z": "{{ steps.b.output }}"}},
            {"id": "b", "job": "x", "needs": ["a"], "timeout": "soon"},
            {"id": "c", "job": "ENGINE_RUN", "sleep": 1, "timeout": "soon", "with": {"y": "{{ 1 + }}"}},
            {"id": "d", "job": "x", "needs": ["d"], "if": "{{ (", "onFailure": {"with": {"y": "{{ 1 + }}"}}},
        )
    )

    assert sorted(error.field for error in errors) == [
        *("steps[0].needs", "steps[0].with.y", "steps[1].timeout", "steps[2]", "steps[2].job", "steps[2].timeout"),
        *("steps[2].with.y", "steps[3].if", "steps[3].needs", "steps[3].onFailure", "steps[3].onFailure.with.y"),
    ]


async def test_a_document_with_mistakes_is_not_saved(kit):
    with pytest.raises(InvalidInput, match="needs exactly one of"):
        await save(kit, doc({"id": "a"}))
    assert await kit.pool.fetchval("select count(*) from atlas.workflows") == 0


async def test_a_secret_of_a_job_is_not_kept_in_a_document(kit):
    schema = '{"type": "object", "properties": {"token": {"type": "string", "x-secret": true}}}'
    await kit.pool.execute("insert into atlas.job_types (key, input_schema) values ('deploy', $1)", schema)
    undone = {"id": "b", "job": "wf.mail", "onFailure": {"job": "deploy", "with": {"token": "hunter22"}}}
    with pytest.raises(InvalidInput) as refused:
        await save(kit, doc({"id": "a", "job": "deploy", "with": {"token": "hunter22"}}, undone))
    assert [error.field for error in refused.value.errors] == ["steps[0].with.token", "steps[1].onFailure.with.token"]
    await save(kit, doc({"id": "a", "job": "deploy", "with": {"token": "{{ input.token }}"}}))


@pytest.mark.parametrize("document", example_workflows(), ids=lambda document: document["key"])
def test_the_examples_have_no_mistakes(document):
    assert check_document(document) == []


async def test_loading_the_examples_twice_changes_nothing(kit):
    async with kit.pool.acquire() as conn:
        first = await load_examples(conn, actor=APPROVER)
        second = await load_examples(conn, actor=APPROVER)

    assert [one.key for one in first] == ["daily-brief", "newsletter", "order-saga"]
    assert all(one.is_new for one in first)
    assert not any(one.is_new for one in second)


async def test_the_daily_brief_is_mailed_when_another_person_approves(kit):
    await save(kit, example("daily-brief"))
    run = await kit.run(
        "daily-brief", {"to": "team@example.com", "topic": "tea", "news": ["It is hot.", "It is good."]}
    )
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    assert asked.title == "Send the brief about tea?"
    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, True, actor=APPROVER)
    await kit.work()

    assert (await kit.get(run.id)).output == {"approved": True, "sent": True}
    assert sent[0]["text"] == "It is hot.\nIt is good.\n\nApproved by grace."


async def test_the_daily_brief_stays_unsent_when_it_is_rejected(kit):
    await save(kit, example("daily-brief"))
    run = await kit.run("daily-brief", {"to": "team@example.com", "topic": "tea"})
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, False, actor=APPROVER)
    await kit.work()

    assert (await kit.get(run.id)).output == {"approved": False, "sent": False}
    assert sent == []


ORDER = {"order": "o-1", "customer": "c@example.com", "warehouse": "w@example.com"}


async def test_the_order_saga_ships_what_is_paid(kit):
    await save(kit, example("order-saga"))
    run = await kit.run("order-saga", ORDER)
    async with kit.pool.acquire() as conn:
        await publish_event(conn, SYSTEM_TENANT, "order.paid", {"order": "o-1", "cents": 500}, actor=REQUESTER)
    await kit.work()

    assert (await kit.get(run.id)).output == {"order": "o-1", "shipped": True}
    assert [one["subject"].split()[0] for one in sent] == ["Reserve", "Please", "Ship"]


async def test_the_order_saga_releases_what_is_not_paid(kit):
    await save(kit, example("order-saga"))
    run = await kit.run("order-saga", ORDER)
    await kit.pass_time(timedelta(days=3))
    await kit.work()
    run = await kit.get(run.id)

    assert (run.status, run.error["compensated"]) == ("failed", ["invoice/invoice", "reserve/reserve"])
    assert [one["subject"].split()[0] for one in sent] == ["Reserve", "Please", "Order", "Release"]


async def test_the_newsletter_reaches_the_others_when_one_reader_cannot_be_reached(kit):
    await save(kit, example("newsletter"))
    readers = [{"name": name, "mail": f"{name}@example.com"} for name in ("ann", "nobody", "bob")]
    input = {"subject": "News", "text": "All is well.", "readers": readers, "report_to": "me@example.com"}
    run = await kit.run("newsletter", input)

    assert run.output == {"readers": 3, "status": "failed"}
    assert {one["to"] for one in sent} == {"ann@example.com", "bob@example.com", "me@example.com"}
