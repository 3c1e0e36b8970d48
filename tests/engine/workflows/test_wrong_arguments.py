"""A wrong argument of a run's methods ends the run with a sentence that names it, and nothing is tried again."""

from collections.abc import Callable
from typing import Any

from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from tests.engine.workflows.flows import note

NOT_SECONDS = "is not a number of seconds or a timedelta"

# By what is called: the wrong call, and the sentence.
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "step without a function": (
        lambda run: run.step("a", "note"),
        "run.step takes a function as function, not 'note'.",
    ),
    "step by its result": (lambda run: run.step("a", 5), "run.step takes a function as function, not 5."),
    "retries of a step": (lambda run: run.step("a", note, "x", retries="3"), "run.step takes a whole number of zero or more as retries"),
    "fewer than no retries": (lambda run: run.step("a", note, "x", retries=-1), "as retries, not -1."),
    "policy of a step": (lambda run: run.step("a", note, "x", retry=5), "5 is neither a retry policy nor the name of one"),
    "timeout of a step": (lambda run: run.step("a", note, "x", timeout="soon"), f"'soon' {NOT_SECONDS}"),
    "name of a step": (lambda run: run.step(5, note, "x"), "Invalid step name 5."),
    "transaction without a function": (lambda run: run.transaction("a", None), "run.transaction takes an async function as function, not None."),
    "transaction by a plain function": (lambda run: run.transaction("a", len, retries=0), "run.transaction takes an async function"),
    "effect without a function": (lambda run: run.effect("s.put", "put"), "run.effect takes an async function as function, not 'put'."),
    "option of an effect": (lambda run: run.effect("s.put", note, lokup=note), "run.effect has no option 'lokup'"),
    "lookup of an effect": (lambda run: run.effect("s.put", note, lookup="x"), "run.effect takes a function as lookup, not 'x'."),
    "key of an effect": (lambda run: run.effect("s.put", note, key=5), "key: is not one line of 1 to 255 printable characters"),
    "type of a job": (lambda run: run.job("a", 5), "5 is not the handler of a job type."),
    "undecorated job": (lambda run: run.job("a", note, {}), "note is not the handler of a job type."),
    "input of a job": (lambda run: run.job("a", "wf.double", 5), "input"),
    "priority of a job": (lambda run: run.job("a", "wf.double", {}, priority="high"), "priority"),
    "retries of a job": (lambda run: run.job("a", "wf.double", {}, retries="3"), "run.job takes a whole number of zero or more as retries"),
    "timeout of a job": (lambda run: run.job("a", "wf.double", {}, timeout="soon"), f"'soon' {NOT_SECONDS}"),
    "expiry of a job": (lambda run: run.job("a", "wf.double", {}, expires_in=[]), f"[] {NOT_SECONDS}"),
    "child by its function": (lambda run: run.child("a", wrong), "run.child takes the name of a workflow as workflow, not <function wrong"),
    "child by no name": (lambda run: run.child("a", None), "run.child takes the name of a workflow as workflow, not None."),
    "child by an empty name": (lambda run: run.child("a", " "), "run.child takes the name of a workflow as workflow, not ' '."),
    "child by a name with a null": (lambda run: run.child("a", "x\0y"), "run.child takes the name of a workflow"),
    "input of a child": (lambda run: run.child("a", "wf.plain", [1]), "input: is not a JSON object"),
    "timeout of a child": (lambda run: run.child("a", "wf.plain", {}, timeout="soon"), f"'soon' {NOT_SECONDS}"),
    "sleep": (lambda run: run.sleep("a while"), f"'a while' {NOT_SECONDS}"),
    "sleep for None": (lambda run: run.sleep(None), f"None {NOT_SECONDS}"),
    "sleep until a text": (lambda run: run.sleep_until("2030-01-01"), "run.sleep_until takes a datetime as time, not '2030-01-01'."),
    "event": (lambda run: run.wait_event(5), "Invalid step name 5."),
    "event with a step": (lambda run: run.wait_event(5, step="a"), "run.wait_event takes a text as name, not 5."),
    "match of an event": (lambda run: run.wait_event("x", [1]), "match: is not a JSON object"),
    "timeout of an event": (lambda run: run.wait_event("x", {}, "soon"), f"'soon' {NOT_SECONDS}"),
    "title of an approval": (lambda run: run.approval("a", title=5), "run.approval takes a text as title, not 5."),
    "expiry of an approval": (lambda run: run.approval("a", title="x", expires="soon"), f"'soon' {NOT_SECONDS}"),
    "approval for ever": (lambda run: run.approval("a", title="x", expires=None), f"None {NOT_SECONDS}"),
    "detail of an approval": (lambda run: run.approval("a", title="x", detail=[1]), "detail: is not a JSON object"),
    "branches": (lambda run: run.gather(5), "run.gather takes calls of the run as branches, not 5."),
    "name of branches": (lambda run: run.gather(name=5), "run.gather takes a text as name, not 5."),
    "undo": (lambda run: run.on_failure("a", 5), "run.on_failure takes a function as function, not 5."),
    "name of an undo": (lambda run: run.on_failure(5, note), "Invalid step name 5."),
    "key of a step": (lambda run: run.idempotency_key(5), "run.idempotency_key takes a text as step, not 5."),
    "name of a time": (lambda run: run.now(name=5), "Invalid step name 5."),
    "name of a random number": (lambda run: run.random(name=""), "Invalid step name ''."),
}  # fmt: skip


@workflow("wf.wrong")
async def wrong(run: Run, input: dict[str, str]) -> None:
    call, _ = WRONG[input["call"]]
    made = call(run)
    if hasattr(made, "__await__"):
        await made


async def test_a_wrong_argument_fails_the_run_with_a_sentence(kit):
    asked = {call: await kit.ask("wf.wrong", {"call": call}) for call in WRONG}
    await kit.tick()
    await kit.work()
    for call, run_id in asked.items():
        run = await kit.get(run_id)
        assert (call, run.status) == (call, "failed")
        assert WRONG[call][1] in run.error["message"], (call, run.error["message"])
    assert await kit.pool.fetchval("select max(attempt_count) from atlas.jobs") == 1
