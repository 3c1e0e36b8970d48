"""Recurring functions: a shared schedule, functions in memory, one run at a time, and always a next one."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import structlog

from atlas.engine.jobs.switches.gate import switch
from atlas.engine.schedules.recurring import list_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run, list_runs, renew_run
from atlas.errors import Conflict, InvalidInput, NotFound
from atlas.scheduler.recurring import Recurring
from atlas.scheduler.recurring_run import RecurringContext
from tests.support import DANA, until

NOW = datetime.now(UTC)
DAY, ONCE = timedelta(days=1), timedelta()


@pytest.fixture
async def recurring(pool, conn, acme):
    """The recurring functions of a process, running; make more with `recurring.another()`."""
    made = []

    async def another() -> Recurring:
        one = Recurring(pool, lease=2.0)
        await one.start()
        made.append(one)
        return one

    first = await another()
    first.another = another  # type: ignore[attr-defined]
    yield first
    for one in made:
        await one.cancel()


async def row(conn: Any, id: str = "tidy") -> Any:
    return next(one for one in await list_recurring(conn) if one.id == id)


async def ended(conn: Any, id: str = "tidy", run: int = 1) -> Any:
    """The row, once this run of it has ended."""
    async with asyncio.timeout(60):
        while True:
            found = await row(conn, id)
            if found.run_count >= run and found.last_outcome is not None:
                return found
            await asyncio.sleep(0.01)


async def ran_once(conn: Any, id: str = "tidy") -> Any:
    """The last run of a function that runs once, when it has ended."""
    ended = "select finished_at is not null from atlas.recurring_runs where recurring_id = $1 order by started_at desc"
    await until(lambda: conn.fetchval(ended, id))
    owner = await conn.fetchval("select tenant_id from atlas.recurring_runs where recurring_id = $1", id)
    return (await list_runs(conn, (owner, id)))[0]


async def make_due(conn: Any) -> None:
    await conn.execute("update atlas.recurring_jobs set next_run_at = clock_timestamp() - interval '1 second'")


async def test_a_second_start_and_a_registration_before_the_first_are_refused(pool, acme):
    stopped = Recurring(pool)
    with pytest.raises(Conflict, match="are not running"):
        await stopped.register(acme, "tidy", NOW, DAY, noop)
    await stopped.start()
    with pytest.raises(Conflict, match="are running already"):
        await stopped.start()
    await stopped.cancel()
    with pytest.raises(Conflict, match="are not running"):
        await stopped.register(acme, "tidy", NOW, DAY, noop)
    await stopped.start()
    await stopped.cancel()


async def noop() -> None: ...


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"repeat_every": timedelta(seconds=-1)}, "repeat_every"),
        ({"repeat_every": timedelta.max}, "repeat_every"),
        ({"start_at": datetime(2027, 1, 1)}, "start_at"),
        ({"timeout": timedelta()}, "timeout"),
        ({"id": ""}, "id"),
        ({"fn": lambda ctx, more: None}, "fn"),
        ({"fn": lambda *, ctx: None}, "fn"),
    ],
)
async def test_a_wrong_registration_is_refused_by_its_field(conn, recurring, changes, field):
    values = {"tenant": "acme", "id": "tidy", "start_at": NOW, "repeat_every": DAY, "fn": noop, **changes}
    with pytest.raises(InvalidInput) as refused:
        await recurring.register(**values)
    assert [error.field for error in refused.value.errors] == [field]
    assert await list_recurring(conn) == []


async def test_a_function_runs_at_once_when_it_is_due_and_gets_its_next_run(conn, recurring, acme):
    ran = asyncio.Event()

    async def tidy() -> None:
        ran.set()

    start = NOW - 1.5 * DAY
    registered = asyncio.get_running_loop().time()
    await recurring.register("acme", "tidy", start, DAY, tidy)
    await asyncio.wait_for(ran.wait(), 5)
    woke = asyncio.get_running_loop().time() - registered

    found = await ended(conn)
    print(f"a registered function ran after {woke:.3f} s")
    assert (found.tenant_id, found.run_count, found.last_outcome, found.last_error) == (acme, 1, "succeeded", None)
    # One run for the two that were missed, and the next in its old rhythm.
    assert found.next_run_at == start + 2 * DAY


async def test_a_second_registration_in_this_process_is_refused_and_another_process_shares_the_schedule(
    conn, recurring
):
    await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)
    with pytest.raises(Conflict, match="is registered in this process already"):
        await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)

    other = await recurring.another()
    await other.register("acme", "tidy", NOW + DAY, DAY, noop)
    unchanged = (await row(conn)).next_run_at
    third = await recurring.another()
    await third.register("acme", "tidy", NOW + 2 * DAY, DAY, noop)

    assert unchanged == NOW + DAY
    assert (await row(conn)).next_run_at == NOW + 2 * DAY
    assert len(await list_recurring(conn)) == 1


async def test_what_runs_once_is_gone_after_its_run_and_is_not_run_again_by_another_process(conn, recurring, acme):
    await recurring.register("acme", "tidy", NOW - DAY, ONCE, noop)
    await until(lambda: not recurring._functions)
    other = await recurring.another()
    await other.register("acme", "tidy", NOW - DAY, ONCE, noop)
    await recurring.register("acme", "tidy", NOW - DAY, ONCE, noop)
    assert await list_recurring(conn) == []

    # Another start is another run.
    await recurring.register("acme", "tidy", NOW - DAY / 2, ONCE, noop)
    await until(lambda: conn.fetchval("select not exists (select from atlas.recurring_jobs)"))
    assert [run.outcome for run in await list_runs(conn, (acme, "tidy"))] == ["succeeded", "succeeded"]
    actions = await conn.fetch("select action from atlas.audit_log where entity_type = 'recurring' order by id")
    assert [action["action"] for action in actions] == ["RECURRING_REGISTERED", "RECURRING_REMOVED"] * 2


async def test_an_instance_without_the_function_tracks_it_and_leaves_it_alone(conn, recurring):
    await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)
    await recurring.cancel()
    await make_due(conn)
    bystander = await recurring.another()
    async with asyncio.timeout(60):
        while not bystander.tracked:
            await asyncio.sleep(0.01)

    assert [one.id for one in bystander.tracked] == ["tidy"]
    assert (await row(conn)).run_count == 0


@pytest.mark.parametrize(
    ("what", "outcome", "message"),
    [
        ("raises", "failed", "ValueError: no paper"),
        ("exits", "failed", "SystemExit: 3"),
        ("cancels itself", "failed", "CancelledError"),
        ("takes too long", "timeout", "It took longer than 0.05 s."),
        ("raises a timeout of its own", "failed", "TimeoutError: mine"),
    ],
)
async def test_the_next_run_is_set_whatever_the_outcome(conn, recurring, what, outcome, message):
    async def tidy() -> None:
        match what:
            case "raises":
                raise ValueError("no paper")
            case "exits":
                raise SystemExit(3)
            case "cancels itself":
                raise asyncio.CancelledError
            case "raises a timeout of its own":
                raise TimeoutError("mine")
            case _:
                await asyncio.sleep(60)

    # The others may take as long as a busy machine needs.
    timeout = timedelta(seconds=0.05) if what == "takes too long" else timedelta(minutes=5)
    await recurring.register("acme", "tidy", NOW - DAY / 2, DAY, tidy, timeout=timeout)
    found = await ended(conn)

    assert (found.last_outcome, found.next_run_at) == (outcome, NOW + DAY / 2)
    assert message in found.last_error


async def test_a_plain_function_runs_in_a_thread(conn, recurring):
    threads = []
    await recurring.register("acme", "tidy", NOW, ONCE, lambda: threads.append(threading.current_thread()))
    assert (await ran_once(conn)).outcome == "succeeded"
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("exit", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_plain_function_that_tries_to_end_the_program_has_failed(conn, recurring, exit):
    def tidy() -> None:
        raise exit

    await recurring.register("acme", "tidy", NOW, ONCE, tidy)
    assert exit.__name__ in (await ran_once(conn)).error


async def test_a_plain_function_may_ask_an_iterator_for_one_too_many(conn, recurring):
    await recurring.register("acme", "tidy", NOW, ONCE, lambda: next(iter(())))
    assert (await ran_once(conn)).outcome == "failed"


async def test_one_instance_runs_a_due_function_and_the_others_do_not_wait(conn, recurring):
    running, go_on = [], asyncio.Event()

    async def tidy() -> None:
        running.append(1)
        await go_on.wait()

    others = [await recurring.another() for _ in range(3)]
    for one in (recurring, *others):
        await one.register("acme", "tidy", NOW - DAY / 2, DAY, tidy)
    async with asyncio.timeout(60):
        while not running:
            await asyncio.sleep(0.01)
    for other in others:
        await other._poll()
    go_on.set()
    await ended(conn)

    assert len(running) == 1


async def test_due_functions_run_beside_each_other(conn, recurring):
    meeting = asyncio.Barrier(3)
    for id in ("a", "b", "c"):
        await recurring.register("acme", id, NOW, ONCE, meeting.wait, timeout=timedelta(seconds=5))
    assert {(await ran_once(conn, id)).outcome for id in ("a", "b", "c")} == {"succeeded"}


async def test_a_lease_frees_the_run_of_an_instance_that_died(conn, recurring, acme):
    await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)
    await recurring.cancel()
    await make_due(conn)
    [run] = await claim_runs(conn, "a process that dies", [(acme, "tidy")], lease=60)
    assert await claim_runs(conn, "another", [(acme, "tidy")], lease=60) == []

    await conn.execute("update atlas.recurring_runs set lease_expires_at = clock_timestamp() - interval '1 second'")
    [second] = await claim_runs(conn, "another", [(acme, "tidy")], lease=60)

    assert await finish_run(conn, run, outcome="succeeded") is None  # it wakes: too late
    assert not await renew_run(conn, run, lease=60)
    assert await finish_run(conn, second, outcome="succeeded") == "kept"
    assert (await row(conn)).run_count == 2


@pytest.mark.long
async def test_a_run_that_outlasts_its_lease_keeps_it(conn, recurring):
    async def slow() -> None:
        await asyncio.sleep(2.3)

    await recurring.register("acme", "tidy", NOW - DAY / 2, DAY, slow)
    assert (await ended(conn)).last_outcome == "succeeded"


@pytest.mark.long
@pytest.mark.parametrize("away", ["refuses", "hangs"])
async def test_a_run_whose_lease_cannot_be_renewed_ends_before_another_process_takes_it(
    conn, recurring, monkeypatch, away
):
    running, most, taken = [], [], asyncio.Event()

    async def unreachable(conn: Any, run: Any, *, lease: float) -> bool:
        if run.worker_id != recurring._name:
            return await renew_run(conn, run, lease=lease)
        if away == "hangs":
            await asyncio.sleep(60)
        raise OSError("the database is away")

    async def tidy() -> None:
        running.append(1)
        most.append(len(running))
        if len(most) == 2:
            taken.set()
        try:
            await asyncio.sleep(60)
        finally:
            running.pop()

    monkeypatch.setattr("atlas.scheduler.recurring.renew_run", unreachable)
    await recurring.register("acme", "tidy", NOW - DAY / 2, DAY, tidy)
    async with asyncio.timeout(60):
        while not running:
            await asyncio.sleep(0.01)
    other = await recurring.another()
    await other.register("acme", "tidy", NOW - DAY / 2, DAY, tidy)
    await asyncio.wait_for(taken.wait(), 10)

    assert most == [1, 1]


async def test_unregistering_removes_it_from_memory_and_table_and_an_unknown_one_is_refused(conn, recurring):
    await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)
    await recurring.unregister("acme", "tidy")
    with pytest.raises(NotFound, match="There is no recurring function tidy"):
        await recurring.unregister("acme", "tidy")

    assert await list_recurring(conn) == []
    await recurring.register("acme", "tidy", NOW + DAY, DAY, noop)


async def test_a_run_in_progress_ends_by_itself_when_its_function_is_unregistered(conn, recurring):
    story = []

    async def slow() -> None:
        story.append("begins")
        try:
            await asyncio.sleep(1.5)
            story.append("ends")
        except asyncio.CancelledError:
            story.append("is cancelled")
            raise

    await recurring.register("acme", "tidy", NOW, DAY, slow)
    async with asyncio.timeout(60):
        while not story:
            await asyncio.sleep(0.01)
        await recurring.unregister("acme", "tidy")
        while len(story) < 2:
            await asyncio.sleep(0.01)

    assert story == ["begins", "ends"]
    assert (await ran_once(conn)).outcome == "succeeded"
    assert await list_recurring(conn) == []


async def test_a_stop_gives_the_run_back_and_another_instance_takes_it_up(conn, recurring):
    begun, ran = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def quick() -> None:
        ran.set()

    await recurring.register("acme", "tidy", NOW - DAY / 2, DAY, endless)
    await asyncio.wait_for(begun.wait(), 5)
    await recurring.cancel()
    given_back = await row(conn)
    other = await recurring.another()
    await other.register("acme", "tidy", NOW - DAY / 2, DAY, quick)
    await asyncio.wait_for(ran.wait(), 5)

    assert (given_back.last_outcome, given_back.worker_id) == ("stopped", None)
    assert given_back.next_run_at == NOW - DAY / 2


async def test_a_stop_while_an_outcome_is_recorded_waits_for_it_and_the_function_runs_again(
    conn, recurring, monkeypatch
):
    recording, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*given: Any, **options: Any) -> None:
        recording.set()
        await go_on.wait()
        await finish_run(*given, **options)

    monkeypatch.setattr("atlas.scheduler.recurring.finish_run", slowly)
    await recurring.register("acme", "tidy", NOW, DAY, noop)
    await recording.wait()
    stopping = asyncio.create_task(recurring.cancel())
    await asyncio.sleep(0.1)
    assert not stopping.done()
    go_on.set()
    await stopping
    assert (await row(conn)).last_outcome == "succeeded"

    await make_due(conn)
    await recurring.start()
    assert (await ended(conn, run=2)).run_count == 2


@pytest.mark.long
async def test_a_run_whose_outcome_cannot_be_recorded_comes_again(conn, recurring, monkeypatch):
    async def astray(*given: Any, **options: Any) -> None:
        monkeypatch.undo()
        raise ValueError("a fault of ours")

    monkeypatch.setattr("atlas.scheduler.recurring.finish_run", astray)
    await recurring.register("acme", "tidy", NOW, DAY, noop)

    assert (await ended(conn, run=2)).last_outcome == "succeeded"


async def test_nothing_runs_while_atlas_is_offline_and_the_missed_run_comes_once_on_return(conn, recurring):
    ran = []

    async def tidy() -> None:
        ran.append(1)

    await switch(conn, online=False, actor=DANA)
    await recurring.register("acme", "tidy", NOW - 5 * DAY, DAY, tidy)
    await recurring._poll()
    assert ran == []
    await switch(conn, online=True, actor=DANA)
    await ended(conn)
    assert ran == [1]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_run_that_was_claimed_too_long_ago_for_the_gate_is_not_started(conn, recurring, monkeypatch, in_thread):
    ran = []

    async def tidy() -> None:
        ran.append(1)

    monkeypatch.setattr("atlas.engine.jobs.start_right.START_SECONDS", 0.0)
    await recurring.register("acme", "tidy", NOW, DAY, (lambda: ran.append(1)) if in_thread else tidy)
    await until(lambda: conn.fetchval("select outcome = 'stopped' from atlas.recurring_runs"))
    assert ran == []
    monkeypatch.undo()
    await until(lambda: conn.fetchval("select exists (select from atlas.recurring_runs where outcome = 'succeeded')"))
    assert ran == [1]


@pytest.mark.long
async def test_polls_are_a_second_apart_even_for_a_function_that_is_always_due(conn, recurring):
    times = []

    async def eager() -> None:
        times.append(asyncio.get_running_loop().time())

    await recurring.register("acme", "tidy", NOW, timedelta(microseconds=1), eager)
    await ended(conn, run=3)

    gaps = [second - first for first, second in pairwise(times)]
    # On a busy machine one begins late, and the next in time.
    assert min(gaps) > 0.5


async def test_it_rests_until_the_next_is_due_and_no_longer(conn, recurring):
    ran = asyncio.Event()

    async def tidy() -> None:
        ran.set()

    now = datetime.now(UTC)
    await recurring.register("acme", "tidy", now + timedelta(seconds=1.5), ONCE, tidy)
    await asyncio.wait_for(ran.wait(), 5)
    found = await ran_once(conn)
    late = (found.started_at - found.due_at).total_seconds()
    print(f"started {late:.3f} s after it was due")
    assert 0 <= late < 1


async def test_a_poll_that_fails_for_any_reason_is_repeated(conn, recurring, monkeypatch):
    asked = []

    async def astray(*given: Any, **options: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise ValueError("a fault of ours")
        return await claim_runs(*given, **options)

    monkeypatch.setattr("atlas.scheduler.recurring.claim_runs", astray)
    await recurring.register("acme", "tidy", NOW, ONCE, noop)

    assert (await ran_once(conn)).outcome == "succeeded"
    assert len(asked) >= 2


async def test_a_function_that_takes_its_context_is_told_of_its_run(conn, recurring, acme):
    seen = []

    async def tidy(ctx: RecurringContext) -> None:
        ctx.log.error("tidying")
        seen.append((ctx.tenant_id, ctx.id, ctx.run_id, ctx.attempt, ctx.cancelled))

    with structlog.testing.capture_logs() as logged:
        await recurring.register("acme", "tidy", NOW, ONCE, tidy)
        run = await ran_once(conn)

    assert seen == [(acme, "tidy", run.id, 1, False)]
    [line] = [one for one in logged if one["event"] == "tidying"]
    facts = {"tenant_id": str(acme), "recurring_id": "tidy", "run_id": str(run.id), "attempt_no": 1}
    assert line.items() >= {**facts, "worker_id": run.worker_id}.items()


async def test_a_function_in_a_thread_sees_that_it_took_too_long(conn, recurring):
    def tidy(ctx: RecurringContext) -> None:
        while not ctx.cancelled:
            time.sleep(0.01)

    await recurring.register("acme", "tidy", NOW, ONCE, tidy, timeout=timedelta(seconds=0.05))
    assert (await ran_once(conn)).outcome == "timeout"


async def test_a_function_in_a_thread_sees_the_stop_and_the_next_attempt_knows_its_number(conn, recurring, acme):
    attempts: list[int] = []

    def tidy(ctx: RecurringContext) -> None:
        attempts.append(ctx.attempt)
        while not ctx.cancelled and ctx.attempt == 1:
            time.sleep(0.01)

    await recurring.register("acme", "tidy", NOW, ONCE, tidy)
    await until(lambda: attempts)
    await recurring.cancel()
    other = await recurring.another()
    await other.register("acme", "tidy", NOW, ONCE, tidy)
    await until(lambda: conn.fetchval("select not exists (select from atlas.recurring_jobs)"))

    assert attempts == [1, 2]
    runs = await list_runs(conn, (acme, "tidy"))
    assert [(run.outcome, run.attempt_no) for run in runs] == [("succeeded", 2), ("stopped", 1)]


@pytest.mark.parametrize("written", [lambda: fails(), partial(lambda ctx, more: fails(), more=1)])
async def test_what_a_plain_function_returns_is_awaited(conn, recurring, written):
    await recurring.register("acme", "tidy", NOW, ONCE, written)
    assert "no paper" in (await ran_once(conn)).error


async def fails() -> None:
    raise ValueError("no paper")
