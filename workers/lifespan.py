"""What the handlers of a worker share: opened when it starts, given to them by type, closed when it ends."""

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import JobType
from atlas.engine.jobs.verdicts import describe
from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.workers.application_pool import ApplicationPool

F = TypeVar("F", bound=Callable[..., AsyncIterator[Any]])

log = get_logger("worker")


class LifespanError(AtlasError):
    """A lifespan cannot be used as it is, or failed when it was opened."""


@dataclass(frozen=True, slots=True)
class Lifespan:
    """An async generator function that yields what handlers want, once."""

    name: str
    open: Callable[..., AbstractAsyncContextManager[Any]]
    # The types of what it yields; none: it only has something to do at start and at end.
    provides: tuple[Any, ...]
    # What it takes itself, by parameter.
    needs: Mapping[str, Any]


_registry: dict[str, Lifespan] = {}


def lifespan(function: F) -> F:
    """Open what the decorated async generator yields when a worker starts, and close it when the worker ends.

    Annotate it with what it yields, `AsyncIterator[Client]`: handlers and other lifespans get it for a parameter of
    that type. It may yield several values as `AsyncIterator[tuple[Pool, Client]]`, or None.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    hints = get_type_hints(function)
    provides = _yielded(name, function, hints.pop("return", None))
    needs = {parameter: hints.get(parameter) for parameter in inspect.signature(function).parameters}
    untyped = [parameter for parameter, kind in needs.items() if kind is None]
    if untyped:
        raise LifespanError(f"The lifespan {name} takes {', '.join(untyped)}.", remedy="Annotate it with its type.")
    for kind in provides:
        other = next(
            (
                candidate.name
                for candidate in _registry.values()
                if kind in candidate.provides and candidate.name != name
            ),
            None,
        )
        if other is not None:
            raise LifespanError(
                f"The lifespans {other} and {name} both yield {_type_name(kind)}.",
                remedy="Let one of them yield a class of its own, such as a subclass.",
            )
    _registry[name] = Lifespan(name, asynccontextmanager(function), provides, needs)
    return function


class Resources:
    """What the handlers of one worker share. `application` is their way to the application's database."""

    def __init__(self, application: ApplicationPool) -> None:
        self.application = application
        self._values: dict[Any, Any] = {}
        # By job type, the arguments by parameter.
        self._arguments: dict[str, dict[str, Any]] = {}
        self._begun: set[str] = set()
        self._opened: list[tuple[str, AbstractAsyncContextManager[Any]]] = []
        # By type, what is given to handlers in place of what a lifespan yields, for tests.
        self.overrides: Mapping[Any, Any] = {}

    @asynccontextmanager
    async def opened(self, job_types: Sequence[JobType]) -> AsyncIterator[None]:
        """Open what these handlers want, and the lifespans that yield nothing, for as long as the block."""
        self._values.update(self.overrides)
        try:
            for candidate in [candidate for candidate in _registry.values() if not candidate.provides]:
                await self._open(candidate)
            for job_type in job_types:
                dependencies = job_type.signature.dependencies
                self._arguments[job_type.key] = await self._find(dependencies, f"The handler of {job_type.key}")
            yield
        finally:
            while self._opened:
                await _close(*self._opened.pop())
            self._values.clear()
            self._begun.clear()
            await self.application.close()

    def arguments(self, job_type: JobType, context: AttemptContext | Sequence[AttemptContext]) -> dict[str, Any]:
        """What a handler gets besides its input."""
        values = dict(self._arguments.get(job_type.key, {}))
        if job_type.signature.context is not None:
            values[job_type.signature.context] = context
        return values

    async def _find(self, kinds: Mapping[str, Any], who: str) -> dict[str, Any]:
        """The arguments for these parameters. Opens what is not open yet."""
        for parameter, kind in kinds.items():
            if kind in self._values:
                continue
            provider = next((candidate for candidate in _registry.values() if kind in candidate.provides), None)
            if provider is None:
                raise LifespanError(
                    f"{who} takes {parameter}: {_type_name(kind)}, which nothing yields.",
                    remedy="Register an async generator that yields it with @lifespan, in a module that --app names.",
                )
            await self._open(provider)
        return {parameter: self._values[kind] for parameter, kind in kinds.items()}

    async def _open(self, provider: Lifespan) -> None:
        if provider.name in self._begun:
            raise LifespanError(f"The lifespan {provider.name} needs what itself yields.", remedy="Break the circle.")
        self._begun.add(provider.name)
        opened = provider.open(**await self._find(provider.needs, f"The lifespan {provider.name}"))
        try:
            value = await opened.__aenter__()
        except Exception as error:
            log.error("a lifespan failed at its start", lifespan=provider.name, exc_info=error)
            raise LifespanError(
                f"The lifespan {provider.name} failed at its start: {describe(error)}.", remedy="The log has its stack."
            ) from error
        self._opened.append((provider.name, opened))
        self._values.update(
            zip(provider.provides, value if len(provider.provides) > 1 else (value,), strict=bool(provider.provides))
        )
        self._values.update(self.overrides)


async def _close(name: str, opened: AbstractAsyncContextManager[Any]) -> None:
    try:
        await opened.__aexit__(None, None, None)
    except Exception as error:
        # The others are closed all the same.
        log.error("a lifespan failed at its end", lifespan=name, exc_info=error)


def _yielded(name: str, function: Callable[..., Any], returns: Any) -> tuple[Any, ...]:
    if not inspect.isasyncgenfunction(function):
        raise LifespanError(
            f"The lifespan {name} is not an async generator.",
            remedy="Write it as `async def` with one `yield` between what happens at start and at end.",
        )
    if typing.get_origin(returns) not in (AsyncIterator, AsyncGenerator):
        raise LifespanError(
            f"The lifespan {name} does not say what it yields.",
            remedy="Annotate it, for example with -> AsyncIterator[httpx.AsyncClient].",
        )
    kind = typing.get_args(returns)[0]
    if kind in (None, type(None)):
        return ()
    return typing.get_args(kind) if typing.get_origin(kind) is tuple else (kind,)


def _type_name(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)
