"""Tasks: APScheduler runs them at intervals, when they ask for it and when they are woken, one instance of each at a time."""

import asyncio
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

import atlas.scheduler.tasks
from atlas.scheduler.firing import TriggerTask
from atlas.scheduler.leader import Leader
from atlas.scheduler.tasks import TaskScheduler
from tests.engine.triggers.given import given_schedule
from tests.support import until

NEVER = 3600.0


@pytest.fixture
async def tasks():
    """A scheduler of tasks. It runs when it is entered first."""
    made, stop = TaskScheduler(), asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    await asyncio.sleep(0)
    yield made
    stop.set()
    await running


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, *answers: float | None) -> None:
        self.times = 0
        self.answers = list(answers)

    async def work(self) -> float | None:
        self.times += 1
        return self.answers.pop(0) if self.answers else None

    async def reaches(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.times < times:
                await asyncio.sleep(0.005)


async def test_a_task_runs_now_at_intervals_when_it_asks_for_it_and_when_it_is_woken(tasks):
    often, asking, woken = Counted(), Counted(0.0, 0.03), Counted()
    tasks.add(0.02, often.work)
    tasks.add(NEVER, asking.work)
    task = tasks.add(NEVER, woken.work)

    await often.reaches(5)
    await asking.reaches(3)
    await woken.reaches(1)
    task.wake()
    await woken.reaches(2)


async def test_one_that_is_woken_while_it_runs_runs_once_more_and_never_twice_at_the_same_time(tasks):
    running, most, go_on = [], [], asyncio.Event()

    async def work() -> None:
        running.append(1)
        most.append(len(running))
        await go_on.wait()
        running.pop()

    task = tasks.add(0.01, work)
    await until(lambda: _now(most))
    for _ in range(3):
        task.wake()
    await asyncio.sleep(0.05)
    assert len(most) == 1
    go_on.set()
    await until(lambda: _now(len(most) > 2))

    assert max(most) == 1


async def test_times_that_pass_while_a_task_runs_are_no_news_to_apscheduler(tasks, caplog):
    begun, go_on, clock = [], asyncio.Event(), Counted()

    async def work() -> None:
        begun.append(1)
        await go_on.wait()

    tasks.add(0.01, work)
    tasks.add(0.01, clock.work)
    await clock.reaches(10)
    assert len(begun) == 1
    go_on.set()
    await until(lambda: _now(len(begun) > 3))

    # No "maximum number of running instances reached".
    assert caplog.messages == []


@pytest.mark.parametrize("error", [OSError("the database is away"), ValueError("a fault of ours")])
async def test_what_a_task_raises_is_logged_with_its_cause_and_stops_neither_it_nor_others(tasks, error, monkeypatch):
    monkeypatch.setattr(atlas.scheduler.tasks, "log", log := Mock())
    tries, other = [], Counted()

    async def work() -> None:
        tries.append(1)
        raise error

    tasks.add(0.01, work)
    tasks.add(0.01, other.work)
    await until(lambda: _now(len(tries) > 3))
    await other.reaches(3)

    [call] = [*log.warning.call_args_list, *log.error.call_args_list[:1]]
    assert "a task failed and is repeated" in call.args
    assert str(error) in call.kwargs["reason"]
    assert call.kwargs["task"].endswith("work")


async def test_a_stop_waits_for_the_task_that_runs_and_ends_one_that_would_go_on_at_once():
    tasks, stop, began, ended = TaskScheduler(), asyncio.Event(), asyncio.Event(), []

    async def long() -> None:
        began.set()
        await asyncio.sleep(0.1)
        ended.append("long")

    async def endless() -> float:
        await asyncio.sleep(0.001)
        return 0.0

    tasks.add(NEVER, long)
    tasks.add(NEVER, endless)
    running = asyncio.create_task(tasks.run(stop))
    await began.wait()
    stop.set()
    await asyncio.wait_for(running, 5)

    assert ended == ["long"]
    assert tasks.running == set()


async def test_all_tasks_run_when_the_clock_of_the_machine_was_set(tasks, monkeypatch):
    monkeypatch.setattr(atlas.scheduler.tasks, "CLOCK_SECONDS", 0.05)
    counted = Counted()
    task = tasks.add(0.02, counted.work)
    await counted.reaches(2)
    # As after the clock was set back by an hour: its next time is far away.
    task.job.modify(next_run_time=datetime.now(UTC) + timedelta(hours=1))
    done = counted.times
    monkeypatch.setattr(atlas.scheduler.tasks, "_clocks_apart", lambda: -3600.0)
    await counted.reaches(done + 2)


async def test_nothing_fires_unless_apscheduler_runs_its_job(pool, conn, acme, tasks, database_url, eventually):
    leader, clock = Leader(database_url, tasks), Counted()
    triggers = TriggerTask(pool, leader, tasks)
    triggers.task.job.pause()
    tasks.add(0.1, clock.work)
    await until(lambda: _now(leader.leads))
    await given_schedule(conn, acme, "* * * * *")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('minute', clock_timestamp())")
    # Other tasks run meanwhile, for longer than a poll is apart from the next.
    await clock.reaches(clock.times + 15)
    assert await conn.fetchval("select count(*) from atlas.trigger_fires") == 0

    triggers.task.job.resume()
    await eventually("select count(*) >= 1 from atlas.trigger_fires")


async def _now(value: object) -> object:
    return value
