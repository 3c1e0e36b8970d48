"""Lifespans: opened at the start of a worker, given to handlers by type, closed at its end."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.types import job, registered
from atlas.engine.jobs.lists.find import get_job
from atlas.errors import AtlasError
from atlas.workers import lifespan as module
from atlas.workers.lifespan import LifespanError, lifespan

HAPPENED: list[str] = []


class Connections:
    """What a handler wants."""


class Mailbox:
    def __init__(self, connections: Connections) -> None:
        self.connections = connections


class Clock:
    pass


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lifespans of one test do not reach another, nor do its job types."""
    monkeypatch.setattr(module, "_registry", {})
    before = set(registered())
    HAPPENED.clear()
    yield
    for key in set(registered()) - before:
        del registered()[key]  # type: ignore[attr-defined]


def given_connections() -> None:
    @lifespan
    async def connections() -> AsyncIterator[Connections]:
        HAPPENED.append("open connections")
        yield Connections()
        HAPPENED.append("close connections")


def given_mailbox() -> None:
    @lifespan
    async def mailbox(connections: Connections) -> AsyncIterator[tuple[Mailbox, Clock]]:
        HAPPENED.append("open mailbox")
        yield Mailbox(connections), Clock()
        HAPPENED.append("close mailbox")


async def test_handlers_get_what_lifespans_yield_by_type(pool, given, drain):
    given_mailbox()
    given_connections()

    @job("span.async")
    async def write(input: dict[str, Any], mailbox: Mailbox, ctx: JobContext, clock: Clock, page: int = 3) -> Any:
        return [type(one).__name__ for one in (mailbox, mailbox.connections, ctx, clock)] + [page]

    @job("span.plain")
    def write_plain(input: dict[str, Any], *, connections: Connections, ctx: JobContext) -> Any:
        return [type(connections).__name__, ctx.attempt]

    [first], [second] = await given("span.async"), await given("span.plain")
    await drain("span.async", "span.plain")
    assert (await get_job(pool, first)).output == ["Mailbox", "Connections", "AttemptContext", "Clock", 3]
    assert (await get_job(pool, second)).output == ["Connections", 1]
    assert HAPPENED == ["open connections", "open mailbox", "close mailbox", "close connections"]


async def test_only_what_is_wanted_is_opened_and_hooks_without_a_value_always_are(given, drain):
    given_connections()
    given_mailbox()

    @lifespan
    async def hook() -> AsyncIterator[None]:
        HAPPENED.append("start")
        yield
        HAPPENED.append("end")

    @job("span.wants_little")
    async def write(input: dict[str, Any], connections: Connections) -> None:
        HAPPENED.append("work")

    await given("span.wants_little")
    await drain("span.wants_little")
    assert HAPPENED == ["start", "open connections", "work", "close connections", "end"]


async def test_a_worker_refuses_to_start_without_what_a_handler_takes(drain):
    @job("span.lacks")
    async def write(input: dict[str, Any], mailbox: Mailbox) -> None: ...

    with pytest.raises(LifespanError, match=r"The handler of span.lacks takes mailbox: Mailbox, which nothing yields"):
        await drain("span.lacks")


async def test_a_lifespan_that_fails_at_its_start_ends_the_worker_and_closes_the_others(drain):
    given_connections()

    @lifespan
    async def broken(connections: Connections) -> AsyncIterator[Mailbox]:
        raise RuntimeError("no route to the post")
        yield Mailbox(connections)

    @job("span.broken")
    async def write(input: dict[str, Any], mailbox: Mailbox) -> None: ...

    with pytest.raises(LifespanError, match="broken failed at its start: RuntimeError: no route to the post"):
        await drain("span.broken")
    assert HAPPENED == ["open connections", "close connections"]


async def test_a_lifespan_that_fails_at_its_end_does_not_keep_the_others_open(given, drain):
    given_connections()

    @lifespan
    async def late(connections: Connections) -> AsyncIterator[Clock]:
        yield Clock()
        raise RuntimeError("too late")

    @job("span.late")
    async def write(input: dict[str, Any], clock: Clock) -> None: ...

    await given("span.late")
    await drain("span.late")
    assert HAPPENED == ["open connections", "close connections"]


async def test_a_circle_is_refused(drain):
    @lifespan
    async def first(mailbox: Mailbox) -> AsyncIterator[Clock]:
        yield Clock()

    @lifespan
    async def second(clock: Clock) -> AsyncIterator[Mailbox]:
        yield Mailbox(Connections())

    @job("span.circle")
    async def write(input: dict[str, Any], clock: Clock) -> None: ...

    with pytest.raises(LifespanError, match="needs what itself yields"):
        await drain("span.circle")


def test_a_lifespan_says_what_it_yields_and_is_the_only_one_to():
    async def silent():
        yield 1

    async def no_generator() -> AsyncIterator[Clock]: ...

    async def untyped(what) -> AsyncIterator[Clock]:
        yield Clock()

    for wrong, why in ((silent, "does not say"), (no_generator, "is not an async generator"), (untyped, "takes what")):
        with pytest.raises(LifespanError, match=why):
            lifespan(wrong)
    given_connections()

    async def again() -> AsyncIterator[Connections]:
        yield Connections()

    with pytest.raises(LifespanError, match="both yield Connections"):
        lifespan(again)


def test_a_handler_that_takes_something_without_a_type_is_refused():
    async def write(input: dict[str, Any], what): ...

    async def context_first(ctx: JobContext, input: dict[str, Any]): ...

    for wrong in (write, context_first):
        with pytest.raises(AtlasError, match="A handler takes its input, then"):
            job("span.wrong")(wrong)
