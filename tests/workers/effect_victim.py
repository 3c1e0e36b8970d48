"""Worker processes that kill themselves around an effect: `python -m tests.workers.effect_victim URL FILE`.

For every point read from stdin a worker is forked, and its exit code is printed. A point is `intended N` (the N-th
effect is recorded, and the provider was not called), `made N` (the provider has made it, and did not respond), `ended N`
(it is recorded as done, and the worker does not know it yet), `during N` (the worker dies within two milliseconds
of the call), or `never`. FILE is the provider: a line for each effect that it made, outside of the database.
"""

import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import atlas.workers.workflows
from atlas.db.pool import open_pool
from atlas.engine.effects.batch_effect import batch_effect
from atlas.engine.effects.effect_call import OpenEffect
from atlas.engine.effects.ledger import EffectLedger
from atlas.engine.effects.outcomes import Answer, BatchEffectOptions, Done, NotDone, ThreadEffectOptions
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.workers.worker import Worker, WorkerOptions
from tests.workers.killed_workers import fork_workers

CONCURRENCY = 10
EFFECTS_OF_A_RUN = 3
# The provider's list shows what it made after this time.
LIST_DELAY = 0.05

chosen = ("never", 0)
counts = dict.fromkeys(("intended", "made", "ended"), 0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon() -> None:
    time.sleep(random.random() * 0.002)
    die()


def reach(point: str) -> None:
    """An effect is at a point."""
    counts[point] += 1
    if chosen == (point, counts[point]):
        die()
    if point == "intended" and chosen == ("during", counts[point]):
        threading.Thread(target=die_soon).start()


class Provider:
    """Makes effects: one line in a file for each call, with its key. The fault of a call is chosen by the test."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make_now(self, effect: OpenEffect, fault: str | None) -> str:
        reach("intended")
        if fault == "not made":
            raise ConnectionError("no connection")
        with self._path.open("a") as file:
            file.write(f"{time.time()} {effect.key}\n")
        reach("made")
        if fault == "lost":
            raise ConnectionError("the response was lost")
        return f"made {effect.key}"

    async def make(self, effect: OpenEffect, fault: str | None) -> str:
        await asyncio.sleep(0)
        reference = self.make_now(effect, fault)
        await asyncio.sleep(0)
        return reference

    async def make_all(
        self, effects: Sequence[OpenEffect], faults: Sequence[str | None]
    ) -> Sequence[str | Exception | None]:
        references: list[str | Exception | None] = []
        for effect, fault in zip(effects, faults, strict=True):
            try:
                references.append(await self.make(effect, fault))
            except ConnectionError as error:
                references.append(error)
        return references

    async def look_up(self, key: str) -> Answer:
        return self.find(key)

    def find(self, key: str) -> Answer:
        shown = time.time() - LIST_DELAY
        for line in self._path.read_text().splitlines():
            at, _, made = line.partition(" ")
            if made == key and float(at) < shown:
                return Done(f"made {key}")
        return NotDone()


provider = Provider(Path(sys.argv[2] if len(sys.argv) > 2 else "/dev/null"))
VISIBLE_AFTER = 4 * LIST_DELAY
OPTIONS: dict[str, BatchEffectOptions] = {
    "asked of a person": {},
    "looked up": {"lookup": provider.look_up, "visible_after": VISIBLE_AFTER},
    "repeatable": {"repeatable": True},
}
OPTIONS_IN_THREAD: dict[str, ThreadEffectOptions] = {
    "asked of a person": {},
    "looked up": {"lookup": provider.find, "visible_after": VISIBLE_AFTER},
    "repeatable": {"repeatable": True},
}
RETRY: dict[str, Any] = {"max_retries": 9, "retry": {"base": 0, "factor": 1, "jitter": 0}}
JOB_TYPES = ("effects.make", "effects.make_in_thread", "effects.make_in_batch")


def fault_of(input: dict[str, Any], ctx: JobContext) -> str | None:
    """How the first call of a job fails."""
    return input["fault"] if ctx.attempt == 1 else None


@job("effects.make", **RETRY)
async def make(input: dict[str, Any], ctx: JobContext) -> None:
    await ctx.effect("provider.make", provider.make, fault_of(input, ctx), **OPTIONS[input["kind"]])


@job("effects.make_in_thread", **RETRY)
def make_in_thread(input: dict[str, Any], ctx: JobContext) -> None:
    options = OPTIONS_IN_THREAD[input["kind"]]
    ctx.effect_from_thread("provider.make", provider.make_now, fault_of(input, ctx), **options)


@job("effects.make_in_batch", batch_size=CONCURRENCY, **RETRY)
async def make_in_batch(inputs: list[dict[str, Any]], contexts: list[JobContext]) -> list[BaseException | None]:
    errors: dict[UUID, BaseException] = {}
    for kind, options in OPTIONS.items():
        jobs = [(input, ctx) for input, ctx in zip(inputs, contexts, strict=True) if input["kind"] == kind]
        some = [ctx for _, ctx in jobs]
        faults = [fault_of(input, ctx) for input, ctx in jobs]
        results = await batch_effect(some, "provider.make", provider.make_all, faults, **options)
        errors |= {
            ctx.job_id: result for ctx, result in zip(some, results, strict=True) if isinstance(result, BaseException)
        }
    return [errors.get(ctx.job_id) for ctx in contexts]


@workflow("effects.run")
async def make_some(run: Run, input: dict[str, Any]) -> None:
    for number in range(EFFECTS_OF_A_RUN):
        await run.effect(f"provider.make{number}", provider.make, None, **OPTIONS[input["kind"]])


record_end = EffectLedger.end


async def end(self: EffectLedger, *arguments: Any, **options: Any) -> str:
    """Record an end, and reach that point."""
    verdict = await record_end(self, *arguments, **options)
    reach("ended")
    return verdict


async def work() -> None:
    """Drain, or die trying."""
    assert atlas.workers.workflows
    EffectLedger.end = end  # type: ignore[method-assign]
    pool = await open_pool(sys.argv[1], size=8)
    options = WorkerOptions([*JOB_TYPES, "ENGINE_RUN"], concurrency=CONCURRENCY, poll=0.1, drain=True)
    await Worker(pool, sys.argv[1], options, listen=False).run()
    await pool.close()


def choose(point: str, number: int) -> None:
    """Where this process dies."""
    global chosen
    chosen = (point, number)


if __name__ == "__main__":
    fork_workers(choose, work)
