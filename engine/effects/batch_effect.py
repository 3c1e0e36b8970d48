"""Effects of a batch handler: one for each job, made by one call of the provider."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar, Unpack

from atlas.engine.effects.effect_call import EffectCall, OpenEffect
from atlas.engine.effects.outcomes import BatchEffectOptions
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.verdicts import JobWaits
from atlas.errors import AtlasError

Item = TypeVar("Item")
# The provider's reference of an effect, or why the job has none.
EffectResult: TypeAlias = str | BaseException | None


async def batch_effect(
    contexts: Sequence[JobContext],
    name: str,
    function: Callable[[Sequence[OpenEffect], Sequence[Item]], Awaitable[Sequence[str | Exception | None]]],
    items: Sequence[Item],
    **options: Unpack[BatchEffectOptions],
) -> list[EffectResult]:
    """Make an effect for each job of a batch by one call, and return for each job its reference or an exception.

    The function gets the effects that are to be made, each with a key of its own, and their items, in order. It returns
    the reference of each, or an exception: EffectRefused if the provider certainly did not make it. It is not given
    effects that earlier attempts made, or that are in doubt. Return the exceptions as the outcomes of their jobs.
    """
    calls = [context.effect(name, **options) for context in contexts]
    begun = await asyncio.gather(*(_begin(call) for call in calls))
    results: list[EffectResult] = [effect.reference if isinstance(effect, OpenEffect) else effect for effect in begun]
    to_make = [
        (position, calls[position], effect)
        for position, effect in enumerate(begun)
        if isinstance(effect, OpenEffect) and not effect.is_done
    ]
    if not to_make:
        return results
    try:
        made = await function([effect for *_, effect in to_make], [items[position] for position, *_ in to_make])
        outcomes = _checked(name, made, len(to_make))
    except Exception as error:
        outcomes = [error] * len(to_make)
    except BaseException as error:
        await asyncio.gather(*(_end(call, effect, error) for _, call, effect in to_make))
        raise
    ends = [_end(call, effect, outcome) for (_, call, effect), outcome in zip(to_make, outcomes, strict=True)]
    for (position, *_), result in zip(to_make, await asyncio.gather(*ends), strict=True):
        results[position] = result
    return results


async def _begin(call: EffectCall) -> OpenEffect | BaseException:
    """Begin one effect. What keeps its job from it does not keep the others."""
    try:
        return await call.__aenter__()
    except (Exception, JobWaits) as error:
        return error


async def _end(call: EffectCall, effect: OpenEffect, outcome: EffectResult) -> EffectResult:
    error = outcome if isinstance(outcome, BaseException) else None
    if not isinstance(outcome, BaseException):
        effect.done(outcome)
    try:
        await call.__aexit__(type(error), error, None)
    except Exception as failure:
        return failure
    return error or effect.reference


def _checked(name: str, made: Any, count: int) -> Sequence[str | Exception | None]:
    if not isinstance(made, Sequence) or isinstance(made, str) or len(made) != count:
        raise AtlasError(
            f"The function of the effect {name} returned no list of {count} references.",
            remedy="Return a reference or an exception for each effect that it was given.",
        )
    return made
