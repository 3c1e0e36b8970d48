"""Workers killed around effects, and a provider that loses responses: nothing is made twice, and every doubt is a row."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.effects.find_effects import list_effects
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.workflows.intents import request_workflow, take_intents
from tests.support import DANA, PROOF
from tests.workers.effect_victim import EFFECTS_OF_A_RUN, JOB_TYPES, OPTIONS
from tests.workers.killed_workers import Work, bury, finish_all, victims

JOBS, RUNS, FAULTS, KILLS = (8_500, 500, 2_000, 100) if PROOF else (60, 6, 20, 8)
POINTS = ("intended", "made", "ended", "during")
KINDS = tuple(OPTIONS)
SEED = 47

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800 if PROOF else 300)]


async def given_effects(pool: Any, dice: random.Random) -> None:
    """Jobs and runs of every kind; some calls of jobs fail before or after the provider has made the effect."""
    faults: list[str | None] = [*dice.choices(("lost", "not made"), k=FAULTS), *[None] * (JOBS - FAULTS)]
    dice.shuffle(faults)
    inputs = [{"kind": KINDS[number % len(KINDS)], "fault": fault} for number, fault in enumerate(faults)]
    async with pool.acquire() as conn:
        jobs = [
            NewJob(JOB_TYPES[number // len(KINDS) % len(JOB_TYPES)], input, allow_unknown=True)
            for number, input in enumerate(inputs)
        ]
        await enqueue_many(conn, jobs, actor=DANA)
        for number in range(RUNS):
            input = {"kind": KINDS[number % len(KINDS)]}
            await request_workflow(conn, SYSTEM_TENANT, "effects.run", input, DANA, allow_unknown=True)
        while (await take_intents(conn, "engine")).claimed:
            pass


async def settle_all(pool: Any, made: Counter[str]) -> int:
    """Answer each doubt as the provider would, if it were asked by telephone."""
    settled = 0
    while doubts := await list_effects(pool, state="unknown", limit=200):
        for doubt in doubts:
            outcome = ("done", f"made {doubt.key}") if made[doubt.key] else ("not_done", None)
            async with pool.acquire() as conn:
                await settle_effect(conn, doubt.id, outcome[0], reference=outcome[1], actor=DANA)
            settled += 1
    return settled


async def kill_and_finish(pool: Any, work: Work, dice: random.Random) -> int:
    killed = 0
    for number in range(KILLS):
        killed += await work(f"{POINTS[number % len(POINTS)]} {dice.randrange(1, 80 if PROOF else 6)}") == -9
        await bury(pool)
    await finish_all(pool, work)
    return killed


async def test_no_effect_is_made_twice_or_lost_silently(pool, database_url, tmp_path):
    dice, file = random.Random(SEED), tmp_path / "provider"
    file.touch()
    await given_effects(pool, dice)
    async with victims("tests.workers.effect_victim", database_url, str(file)) as work:
        killed = await kill_and_finish(pool, work, dice)
        await check_doubts(pool, made_by(file))
        settled = await settle_all(pool, made_by(file))
        await finish_all(pool, work)

    effects, made = JOBS + RUNS * EFFECTS_OF_A_RUN, made_by(file)
    kinds = await kinds_of_keys(pool)
    # A provider that honors keys makes one of several calls with the same key.
    doubled = [key for key, count in made.items() if count > 1 and kinds[key] != "repeatable"]
    lost = [key for key in kinds if not made[key]]
    print(
        f"{effects:,} effects, {FAULTS:,} faults of the provider and {killed} kills:"
        f" {settled:,} doubts settled, {len(doubled)} doubled, {len(lost)} lost"
    )
    assert (len(kinds), len(made), doubled, lost) == (effects, effects, [], [])
    assert killed > KILLS / 2
    states = await pool.fetch("select state, count(*) from atlas.effects group by 1")
    assert [tuple(row) for row in states] == [("done", effects)]
    assert await pool.fetchval("select count(*) from atlas.jobs where status <> 'succeeded'") == 0
    assert await cross_check(pool) == []


async def check_doubts(pool: Any, made: Counter[str]) -> None:
    """What is done was made, and what was made and is not done is a doubt that a person can settle."""
    rows = {row["key"]: row["state"] for row in await pool.fetch("select key, state from atlas.effects")}
    assert {rows[key] for key in made} <= {"done", "unknown"}
    assert not [key for key, state in rows.items() if state == "done" and not made[key]]
    assert [key for key, state in rows.items() if state == "unknown"], "the faults left no doubt to settle"


def made_by(file: Path) -> Counter[str]:
    return Counter(line.partition(" ")[2] for line in file.read_text().splitlines())


async def kinds_of_keys(pool: Any) -> dict[str, str]:
    rows = await pool.fetch(
        "select e.key, coalesce(j.input->>'kind', j.input->'input'->>'kind') as kind from atlas.effects e join atlas.jobs j on j.id = e.job_id"
    )
    return {row["key"]: row["kind"] for row in rows}
