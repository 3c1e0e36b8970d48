"""Effects of a run: recorded as a step, and asked about after a loss."""

from typing import Any

from atlas.engine.effects.find_effects import list_effects
from atlas.engine.effects.settle import settle_effect
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from tests.support import DANA

charges: list[str] = []


async def charge(effect: Any, cents: int) -> str:
    charges.append(effect.key)
    if cents == 13 and len(charges) == 2:
        raise ConnectionError("the response was lost")
    return f"ch_{len(charges)}"


@workflow("effect.instalments")
async def instalments(run: Run, input: dict[str, Any]) -> list[str | None]:
    """Two charges; the answer to the second is lost."""
    first = await run.effect("stripe.charge", charge, 7)
    await run.sleep(0)
    return [first, await run.effect("stripe.charge", charge, 13)]


async def test_an_effect_is_a_step_and_a_doubt_suspends_the_run_until_a_person_answers(kit):
    charges.clear()
    run_id = await kit.ask("effect.instalments")
    await kit.tick()
    for _ in range(3):
        await kit.work()
        await kit.pool.execute("update atlas.jobs set next_retry_at = null where next_retry_at < '9000-01-01'")
        await kit.pool.execute("update atlas.workflow_steps set wake_at = now() where status = 'retrying'")

    made, doubt = reversed(await list_effects(kit.pool))
    assert (made.state, made.reference, doubt.state) == ("done", "ch_1", "unknown")
    assert charges == [f"{run_id}:stripe.charge:stripe.charge", f"{run_id}:{doubt.step}:stripe.charge"]
    assert (await kit.get(run_id)).status != "succeeded"
    async with kit.pool.acquire() as conn:
        assert (await settle_effect(conn, doubt.id, "done", reference="ch_9", actor=DANA)).woken
    await kit.work()
    run = await kit.get(run_id)
    assert (run.status, run.output) == ("succeeded", ["ch_1", "ch_9"])
    assert len(charges) == 2
