"""What is known of an effect, and what a provider answers when it is asked whether one was made.

    intended ──▶ done        the provider made it, and its reference is recorded
             ──▶ refused     the provider certainly did not: the next attempt may call
             ──▶ unknown     nobody knows: the attempt died, or the response was lost

An effect that is `intended` by an attempt that runs no more is as unknown as one that is called so.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias, TypedDict

from atlas.errors import AtlasError

# What a provider remembers a key for, where a handler says only that it does.
REPEATABLE_SECONDS = 24 * 3600.0
# For so long after a call a provider may not show yet what it made.
VISIBLE_SECONDS = 30.0


# A run waits for it, with the id of the effect.
SETTLED_EVENT = "atlas.effect.settled"

Duration: TypeAlias = timedelta | float | int


@dataclass(frozen=True, slots=True)
class Done:
    """The provider made it, and calls it by this reference."""

    reference: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """The provider did not make it."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The provider does not say. `reason` is shown to the person who is asked."""

    reason: str = ""


Answer: TypeAlias = Done | NotDone | CannotTell
# Asks a provider for the effect with this idempotency key.
Lookup: TypeAlias = Callable[[str], Awaitable[Answer]]


class ProviderOptions(TypedDict, total=False):
    """What a handler says about a provider.

    `repeatable`: it honors the key, for `repeatable_for` after the first call. NotDone of a lookup counts only
    `visible_after` seconds after the call. `detail` is shown to a person who must decide.
    """

    detail: Mapping[str, Any] | None
    repeatable: bool
    repeatable_for: Duration
    visible_after: Duration


class BatchEffectOptions(ProviderOptions, total=False):
    """What a handler says about the effects of several jobs. `lookup` asks the provider after a loss."""

    lookup: Lookup | None


class EffectOptions(BatchEffectOptions, total=False):
    """The same for one effect. `key`: the idempotency key, by default made of the job's id, the step and the name."""

    key: str | None


class ThreadEffectOptions(ProviderOptions, total=False):
    """The same in a thread, where `lookup` is a plain function."""

    key: str | None
    lookup: Callable[[str], Answer] | None


class EffectRefused(AtlasError):
    """The provider certainly did not make the effect. The next attempt may call it."""


def refuse(reason: str) -> NoReturn:
    """Say within an effect that the provider certainly did not make it."""
    raise EffectRefused(reason, remedy="The effect was not made: the next attempt calls the provider again.")
