"""Hooks around jobs: before and after each handler, step and recurring function, on its own side of the event loop."""

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from atlas import around_job
from atlas.engine.jobs.handlers import around_job as module
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.types import job, registered
from atlas.engine.jobs.lists.find import get_job

HAPPENED: list[str] = []


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hooks of one test do not reach another, nor do its job types."""
    monkeypatch.setattr(module, "_plain", {})
    monkeypatch.setattr(module, "_async", {})
    before = set(registered())
    HAPPENED.clear()
    yield
    for key in set(registered()) - before:
        del registered()[key]  # type: ignore[attr-defined]


def note(event: str) -> None:
    HAPPENED.append(f"{event} in {threading.current_thread().name.partition('_')[0]}")


def given_hooks() -> None:
    @around_job
    def plain() -> Iterator[None]:
        note("begin")
        try:
            yield
        finally:
            note("end")

    @around_job
    async def on_loop() -> AsyncIterator[None]:
        note("begin")
        try:
            yield
        finally:
            note("end")


async def test_a_plain_handler_has_the_plain_hooks_in_its_thread(given, drain):
    given_hooks()

    @job("around.plain")
    def handle(input: dict[str, Any]) -> None:
        note("job")

    await given("around.plain")
    await drain("around.plain")
    assert HAPPENED == ["begin in atlas-handler", "job in atlas-handler", "end in atlas-handler"]


@pytest.mark.parametrize("kind", ["input alone", "with context", "batch"])
async def test_an_async_handler_has_the_async_hooks_on_the_event_loop(given, drain, kind):
    given_hooks()
    if kind == "batch":

        @job("around.async")
        async def handle_many(inputs: list[dict[str, Any]]) -> None:
            note("job")

    elif kind == "with context":

        @job("around.async")
        async def handle_with_context(input: dict[str, Any], ctx: JobContext) -> None:
            note("job")

    else:

        @job("around.async")
        async def handle(input: dict[str, Any]) -> None:
            note("job")

    await given("around.async")
    await drain("around.async")
    assert HAPPENED == ["begin in MainThread", "job in MainThread", "end in MainThread"]


async def test_hooks_end_after_a_handler_that_raises_and_their_own_errors_count_as_its(pool, given, drain):
    @around_job
    def refuse() -> Iterator[None]:
        try:
            yield
        finally:
            note("end")
            raise ValueError("the hook failed")

    @job("around.raises", max_retries=0)
    def handle(input: dict[str, Any]) -> None:
        raise RuntimeError("the handler failed")

    [job_id] = await given("around.raises")
    await drain("around.raises")
    assert HAPPENED == ["end in atlas-handler"]
    assert (await get_job(pool, job_id)).error["message"] == "ValueError: the hook failed"


def test_what_is_no_generator_without_parameters_is_refused():
    with pytest.raises(module.InvalidHook, match="is not a generator"):
        around_job(lambda: iter([None]))
    with pytest.raises(module.InvalidHook, match="takes parameters"):

        @around_job  # type: ignore[type-var]
        def takes_input(input: dict[str, Any]) -> Iterator[None]:
            yield
