"""Effects of a run: each is a step, and where nobody knows whether it was made the run waits for a person's answer."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from atlas.engine.effects.effect_call import EffectCall
from atlas.engine.effects.ledger import Ledger
from atlas.engine.effects.outcomes import SETTLED_EVENT, EffectOptions
from atlas.engine.jobs.verdicts import JobWaits
from atlas.engine.workflows.steps.step_options import StepOptions

if TYPE_CHECKING:
    from atlas.engine.workflows.run_context import Run


async def effect_in_run(
    run: "Run",
    ledger: Callable[[], Ledger],
    name: str,
    function: Callable[..., Awaitable[str | None]],
    arguments: tuple[Any, ...],
    step_options: StepOptions,
    options: EffectOptions,
) -> str | None:
    """The provider's reference of an effect, made once however often the run is replayed."""

    async def call() -> dict[str, str | None]:
        effect = EffectCall(ledger(), name, options, function, arguments)
        try:
            return {"reference": await effect}
        except JobWaits:
            return {"asks": str(effect.effect_id)}

    while True:
        outcome = await run.step(name, call, **step_options)
        if "asks" not in outcome:
            return outcome["reference"]
        await run.wait_event(SETTLED_EVENT, {"effect": outcome["asks"]}, step=f"{name} settled")
