"""DBOS: a transaction to look for an earlier result and another to record it, per step, on threads."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from dbos import DBOS, DBOSClient, DBOSConfig

from bench.peers.databases import count, settle
from bench.peers.peer import STEPS, Call, WorkflowEngine, expect
from bench.peers.stopwatch import Moments, Tally, produced

UNFINISHED = "select count(*) from dbos.workflow_status where status <> 'SUCCESS'"
CHECKPOINTS = "select count(*) from dbos.operation_outputs"
CONNECTIONS = 20
THREADS = 16
RELEASE = "bench"


class Dbos(WorkflowEngine):
    name = "dbos"

    def __init__(self, batch: int | None) -> None:
        pass  # it claims all that waits at each poll

    @property
    def version(self) -> str:
        return version("dbos")

    @property
    def settings(self) -> str:
        return f"sync workflows, {THREADS} threads, {CONNECTIONS} connections, queue polled every 0.05 s"

    async def prepare(self, database_url: str) -> None:
        await asyncio.to_thread(_migrate, database_url)

    async def workflows(self, database_url: str, runs: int) -> float:
        tally = Tally(runs)

        def workflow(number: int) -> None:
            tally.add()
            _five_steps()

        DBOS.workflow(name="workflow")(workflow)
        with _client(database_url) as client:
            for number in range(runs):
                await asyncio.to_thread(_enqueue, client, number)
        expect("workflows in the store", await count(database_url, UNFINISHED), runs)
        await settle(database_url)
        await asyncio.to_thread(_launch, database_url)
        try:
            seconds = await tally.drained(database_url, UNFINISHED)
        finally:
            await asyncio.to_thread(DBOS.destroy)
        expect("workflow runs", tally.runs, runs)
        expect("recorded steps", await count(database_url, CHECKPOINTS), runs * STEPS)
        return seconds

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments = Moments(jobs)

        def workflow(number: int) -> None:
            _five_steps()
            moments.note(number)

        DBOS.workflow(name="workflow")(workflow)
        await asyncio.to_thread(_launch, database_url)
        try:
            return await moments.wait(ready)
        finally:
            await asyncio.to_thread(DBOS.destroy)

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        with _client(database_url) as client:
            return await produced(jobs, lambda number: asyncio.to_thread(_enqueue, client, number))


def _nothing(number: int) -> None:
    """A step that does nothing."""


_step = DBOS.step(name="step")(_nothing)


def _five_steps() -> None:
    for number in range(STEPS):
        _step(number)


@contextmanager
def _client(database_url: str) -> Iterator[DBOSClient]:
    client = DBOSClient(system_database_url=database_url)
    try:
        yield client
    finally:
        client.destroy()


def _enqueue(client: DBOSClient, number: int) -> None:
    client.enqueue({"workflow_name": "workflow", "queue_name": "bench", "app_version": RELEASE}, number)


def _migrate(database_url: str) -> None:
    _launch(database_url)
    DBOS.register_queue("bench", polling_interval_sec=0.05)
    DBOS.destroy()


def _launch(database_url: str) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": database_url,
        "application_version": RELEASE,
        "sys_db_pool_size": CONNECTIONS,
        "max_executor_threads": THREADS,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
