"""One call of a provider: recorded before, asked about after a loss, never repeated blindly."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Never
from uuid import UUID

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.engine.effects.ledger import BegunEffect, Ledger
from atlas.engine.effects.outcomes import (
    REPEATABLE_SECONDS,
    VISIBLE_SECONDS,
    CannotTell,
    Done,
    EffectOptions,
    EffectRefused,
    NotDone,
    refuse,
)
from atlas.engine.jobs.backoff import seconds_within
from atlas.engine.jobs.handlers.arguments import require_async, require_function, require_mapping, require_text
from atlas.engine.jobs.verdicts import JobCanceled, JobWaits, PermanentError, Snooze, describe
from atlas.engine.validation import check_name
from atlas.errors import AtlasError, FieldError, InvalidInput, LeaseLost
from atlas.logs import get_logger

MAX_KEY = 255
MAX_REFERENCE = 2000
# How long a call that was cut off may take to record that its outcome is unknown.
CUT_OFF_SECONDS = 3.0

log = get_logger("effects")


class OpenEffect:
    """An effect within its call."""

    __slots__ = ("_is_told", "_key", "_refusal", "id", "is_done", "reference")

    def __init__(self, id: UUID, key: str, reference: str | None, *, is_done: bool) -> None:
        self.id = id
        self._key = key
        # An earlier attempt made it: there is nothing to call.
        self.is_done = is_done
        self.reference = reference
        # What the block raised to say that the provider did not make it.
        self._refusal: Exception | None = None
        self._is_told = False

    @property
    def key(self) -> str:
        """The idempotency key for the provider. An effect that is done has none to give away."""
        if self.is_done:
            raise AtlasError(
                f"The effect is done already, as {self.reference}.",
                remedy="Ask `if not effect.is_done:` before the call, or pass ctx.effect a function.",
            )
        return self._key

    @property
    def is_told(self) -> bool:
        """Whether the block has said that it is done."""
        return self._is_told

    def is_refused_by(self, error: BaseException) -> bool:
        """Whether the block raised this to say that the provider did not make it."""
        return isinstance(error, EffectRefused) or error is self._refusal

    def done(self, reference: str | None = None) -> None:
        """The provider made it, and calls it by this reference."""
        self.reference = None if reference is None else str(reference)[:MAX_REFERENCE]
        self._is_told = True

    def refused(self, reason: str | Exception) -> Never:
        """The provider certainly did not make it: leave the call. The next attempt may call again.

        Raises EffectRefused, or the exception that is given: a PermanentError, where calling again is of no use.
        """
        if isinstance(reason, str):
            refuse(reason)
        self._refusal = reason
        raise reason


class EffectCall:
    """`await` it with a function, or enter it: `async with ctx.effect("stripe.charge") as effect:`."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        options: EffectOptions,
        function: Callable[..., Awaitable[str | None]] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        check_effect("ctx.effect", name, function, options)
        self._ledger = ledger
        self._name = name
        self._options = options
        self._function = function
        self._arguments = arguments
        self._key = options.get("key") or default_key(ledger.job_id, ledger.step, name)
        self._open: OpenEffect | None = None
        # An earlier call may have been made, and the provider honors the key.
        self._is_repeated = False
        # Of an effect that a person is asked about.
        self.effect_id: UUID | None = None
        _check_key(self._key)

    def __await__(self) -> Generator[Any, None, str | None]:
        return self.make().__await__()

    async def make(self) -> str | None:
        """Call the function, unless an earlier attempt has made the effect, and return the reference."""
        if self._function is None:
            raise AtlasError(
                f"The effect {self._name} is awaited without an async function.",
                remedy='`await ctx.effect("…", function, …)`, or `async with ctx.effect("…") as effect:`.',
            )
        async with self as effect:
            if effect.is_done:
                return effect.reference
            effect.done(await self._function(effect, *self._arguments))
        return effect.reference

    async def __aenter__(self) -> OpenEffect:
        begun = await self._begin()
        if begun.verdict == "doubt":
            begun = await self._resolve(begun)
        is_done = begun.verdict == "done"
        self._open = OpenEffect(begun.id, self._key, begun.reference if is_done else None, is_done=is_done)
        return self._open

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        effect = self._open
        assert effect is not None
        if effect.is_done:
            return
        if effect.is_told:
            await self._end(effect.id, "done", reference=effect.reference)
        elif error is not None and effect.is_refused_by(error):
            # A refusal says nothing about an earlier call.
            state = "unknown" if self._is_repeated else "refused"
            await self._end(
                effect.id, state, reason=error.message if isinstance(error, AtlasError) else describe(error)
            )
        elif error is not None:
            await self._cut_off(effect.id, error)
        else:
            message = f"The block of the effect {self._name} ended and did not say what became of it."
            await self._end(effect.id, "unknown", reason=message)
            raise AtlasError(message, remedy="Call effect.done(reference) in it, or effect.refused(reason).")

    async def _begin(self, *, again: bool = False) -> BegunEffect:
        begun = await self._ledger.begin(self._name, self._key, self._options.get("detail") or {}, again=again)
        if begun.verdict == "lost":
            raise LeaseLost(self._ledger.job_id, self._ledger.attempt)
        if begun.verdict == "busy":
            raise AtlasError(
                f"This attempt makes the effect {self._name} with the key {self._key} already.",
                remedy="Give each effect of a job a name or a key of its own.",
            )
        return begun

    async def _resolve(self, begun: BegunEffect) -> BegunEffect:
        """An earlier call may have been made: ask the provider, call again where that is safe, or ask a person."""
        options = self._options
        lookup = options.get("lookup")
        answer = CannotTell() if lookup is None else await lookup(self._key)
        match answer:
            case Done(reference):
                await self._end(begun.id, "done", reference=reference, found=True)
                return begun._replace(verdict="done", reference=reference)
            case NotDone():
                left = seconds_within(options.get("visible_after", VISIBLE_SECONDS)) - begun.since
                if left > 0:
                    raise Snooze(left, f"{self._name} is not to be seen yet; the provider is asked again")
                return await self._begin(again=True)
            case CannotTell(reason):
                longest = seconds_within(options.get("repeatable_for", REPEATABLE_SECONDS))
                if options.get("repeatable") and begun.age < longest:
                    self._is_repeated = True
                    return await self._begin(again=True)
                return await self.ask(begun.id, reason)
        raise AtlasError(
            f"The lookup of {self._name} returned {answer!r}.",
            remedy="Return Done(reference), NotDone() or CannotTell(reason).",
        )

    async def ask(self, effect_id: UUID, reason: str) -> Never:
        """Let the job wait until a person has said whether it was made."""
        self.effect_id = effect_id
        match await self._ledger.ask(effect_id, question_of(self._name, self._key), reason):
            case "asked":
                raise JobWaits(self._ledger.job_id)
            case "canceled":
                raise JobCanceled("Canceled while running.")
            case _:
                raise LeaseLost(self._ledger.job_id, self._ledger.attempt)

    async def _end(
        self, id: UUID, state: str, *, reference: str | None = None, reason: str = "", found: bool = False
    ) -> None:
        verdict = await self._ledger.end(id, state, reference=reference, reason=reason, found=found)
        if verdict != "ended" and state != "unknown":
            raise LeaseLost(self._ledger.job_id, self._ledger.attempt)

    async def _cut_off(self, id: UUID, error: BaseException) -> None:
        """Record that nobody knows whether the call was made. Without this record the next attempt asks too."""
        try:
            await self._ledger.end(id, "unknown", reason=describe(error), within=CUT_OFF_SECONDS)
        except (TimeoutError, CancelledError, *UNREACHABLE, asyncpg.PostgresError) as failure:
            log.warning("the outcome of an effect was not recorded", effect=self._name, reason=repr(failure))


def default_key(job_id: UUID, step: str, name: str) -> str:
    """The key of an effect whose handler names none: the same in every attempt."""
    return f"{job_id}:{step}:{name}" if step else f"{job_id}:{name}"


def question_of(name: str, key: str) -> str:
    """What a person is asked."""
    return f"Was {name} {key} made?"


def check_effect(call: str, name: str, function: Any, options: EffectOptions) -> None:
    """Refuse wrong arguments before anything is recorded: some of them are used only after a loss."""
    require_text(call, "name", name)
    if function is not None:
        require_async(call, "function", function)
    for option in options:
        if option not in EffectOptions.__annotations__:
            names = ", ".join(sorted(EffectOptions.__annotations__))
            raise PermanentError(f"{call} has no option {option!r}.", remedy=f"Its options are {names}.")
    require_mapping(call, "detail", options.get("detail"))
    if options.get("lookup") is not None:
        require_function(call, "lookup", options["lookup"])
    seconds_within(options.get("visible_after", VISIBLE_SECONDS))
    seconds_within(options.get("repeatable_for", REPEATABLE_SECONDS))
    if wrong := check_name("name", name):
        raise InvalidInput("The effect", wrong)
    if options.get("key") is not None:
        _check_key(options["key"])


def _check_key(key: str | None) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY or not key.isprintable():
        wrong = FieldError("key", f"is not one line of 1 to {MAX_KEY} printable characters")
        raise InvalidInput("The effect", [wrong])
