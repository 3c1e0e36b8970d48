"""Stored histories: today's code takes the same way, and a planted change is refused."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from atlas.engine.workflows.errors import ReplayDiverged
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.steps.replay import replay
from tests.engine.workflows.flows import calls

HISTORIES = [orjson.loads(path.read_bytes()) for path in sorted(Path(__file__).parent.glob("histories/*.json"))]


@pytest.fixture(autouse=True)
def counted_from_zero():
    calls.clear()


async def follow(history: dict[str, Any], steps: list[dict[str, Any]] | None = None) -> Any:
    workflow = registered_workflows()[history["workflow"]]
    return await replay(workflow, history["input"], history["steps"] if steps is None else steps)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["workflow"])
async def test_a_stored_history_is_followed_to_its_end_and_nothing_is_done(history):
    replayed = await follow(history)

    assert replayed.status == {"succeeded": "ended", "failed": "failed", "waiting": "waiting"}[history["status"]]
    if history["status"] == "succeeded":
        assert orjson.loads(orjson.dumps(replayed.output)) == history["output"]
    assert calls == {}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["workflow"])
async def test_the_beginning_of_a_history_leads_beyond_it_without_doing_anything(history):
    for length in range(len(history["steps"])):
        replayed = await follow(history, history["steps"][:length])
        assert replayed.status in ("beyond", "waiting", "failed")
    assert calls == {}


def test_there_is_a_history_of_every_kind_of_step():
    kinds = {step["kind"] for history in HISTORIES for step in history["steps"]}
    print(
        f"replay: {len(HISTORIES)} stored histories, {len(list(plantings()))} planted changes, each refused by its own test"
    )
    assert kinds == {"step", "job", "child", "sleep", "event", "approval", "value"}


def renamed(steps: list[dict[str, Any]], at: int) -> None:
    steps[at]["name"] += "!"


def of_another_kind(steps: list[dict[str, Any]], at: int) -> None:
    steps[at]["kind"] = "value" if steps[at]["kind"] != "value" else "step"


def doubled(steps: list[dict[str, Any]], at: int) -> None:
    """A step that the code does not have any more."""
    same = [step for step in steps if step["branch"] == steps[at]["branch"]]
    for one in same:
        if one["position"] > steps[at]["position"]:
            one["position"] += 1
    steps.append({**steps[at], "name": "gone", "position": steps[at]["position"] + 1, "status": "succeeded"})


def removed(steps: list[dict[str, Any]], at: int) -> None:
    """A step that the code has and the record has not, though later ones are recorded."""
    gone = steps.pop(at)
    for step in steps:
        if step["branch"] == gone["branch"] and step["position"] > gone["position"]:
            step["position"] -= 1


def plantings() -> Iterator[Any]:
    for history in HISTORIES:
        for change in (renamed, of_another_kind, doubled, removed):
            for at, step in enumerate(history["steps"]):
                last = max(one["position"] for one in history["steps"] if one["branch"] == step["branch"])
                is_last = step["position"] == last
                # Without its last step a branch is merely not as far; undoing follows the record's own order.
                if step["branch"] != "undo/" and not (change is removed and is_last):
                    yield pytest.param(history, change, at, id=f"{history['workflow']} {change.__name__} {at}")


@pytest.mark.parametrize(("history", "change", "at"), list(plantings()))
async def test_a_planted_change_is_refused(history: dict[str, Any], change: Callable[..., None], at: int):
    steps = copy.deepcopy(history["steps"])
    change(steps, at)

    with pytest.raises(ReplayDiverged) as refusal:
        await follow(history, steps)
    assert refusal.value.expected
    assert refusal.value.found
    assert calls == {}
