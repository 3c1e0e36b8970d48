"""The decorator `@job` as applications use it: the function it returns also enqueues, with the type of its input."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack

from atlas.db.pool import Connection
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.enqueue_call import EnqueueTerms, enqueue
from atlas.engine.jobs.types import job as register

Input = TypeVar("Input", contravariant=True)
Result = TypeVar("Result", covariant=True)
More = ParamSpec("More")
Options = ParamSpec("Options")


class JobFunction(Protocol[Input, More, Result]):
    """A function that was registered with `@job`. It is called as before."""

    job_type: str

    def __call__(self, input: Input, /, *more: More.args, **named: More.kwargs) -> Result: ...

    async def enqueue(self, conn: Connection, input: Input, **terms: Unpack[EnqueueTerms]) -> Enqueued:
        """Enqueue a job of this function over a connection of asyncpg, in its transaction if it has one."""
        ...


def _that_enqueue(
    register: Callable[Concatenate[str, Options], Callable[[Any], Any]],
) -> Callable[
    Concatenate[str, Options], Callable[[Callable[Concatenate[Input, More], Result]], JobFunction[Input, More, Result]]
]:
    """The decorator with the same options, for functions that enqueue jobs of themselves."""

    @wraps(register)
    def job(
        key: str, /, *options: Options.args, **named: Options.kwargs
    ) -> Callable[[Callable[Concatenate[Input, More], Result]], JobFunction[Input, More, Result]]:
        decorate = register(key, *options, **named)

        def add(function: Callable[Concatenate[Input, More], Result]) -> JobFunction[Input, More, Result]:
            async def enqueue_own(conn: Connection, input: Input, **terms: Unpack[EnqueueTerms]) -> Enqueued:
                return await enqueue(conn, key, input, **terms)

            registered: Any = decorate(function)
            registered.job_type, registered.enqueue = key, enqueue_own
            return registered  # type: ignore[no-any-return]

        return add

    return job


job = _that_enqueue(register)
