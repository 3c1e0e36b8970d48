"""The decorator `@job` as applications use it: the function it returns also enqueues, with the type of its input."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from atlas.db.pool import Connection
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.handlers.types import job as register
from atlas.engine.jobs.new_jobs.enqueue_call import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJobOptions

Taken = TypeVar("Taken", contravariant=True)
Input = TypeVar("Input", contravariant=True)
Result = TypeVar("Result", covariant=True)
More = ParamSpec("More")
Options = ParamSpec("Options")


class JobFunction(Protocol[Taken, Input, More, Result]):
    """A function that was registered with `@job`. It is called as before, and enqueues a job for each input."""

    job_type: str

    def __call__(self, input: Taken, /, *more: More.args, **named: More.kwargs) -> Result: ...

    async def enqueue(self, conn: Connection, input: Input, **options: Unpack[NewJobOptions]) -> Enqueued:
        """Enqueue a job of this function over a connection of asyncpg, in its transaction if it has one."""
        ...


class JobDecorator(Protocol):
    """What `@job(…)` is applied with. A function that takes a list is called with the inputs of several jobs."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[list[Input], More], Result], /
    ) -> JobFunction[list[Input], Input, More, Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Input, More], Result], /
    ) -> JobFunction[Input, Input, More, Result]: ...


def _that_enqueue(
    register: Callable[Concatenate[str, Options], Callable[[Any], Any]],
) -> Callable[Concatenate[str, Options], JobDecorator]:
    """The decorator with the same options, for functions that enqueue jobs of themselves."""

    @wraps(register)
    def job(key: str, /, *options: Options.args, **named: Options.kwargs) -> JobDecorator:
        decorate = register(key, *options, **named)

        def add(function: Any, /) -> Any:
            async def enqueue_own(conn: Connection, input: Any, **options: Unpack[NewJobOptions]) -> Enqueued:
                return await enqueue(conn, key, input, **options)

            registered = decorate(function)
            registered.job_type, registered.enqueue = key, enqueue_own
            return registered

        return add

    return job


job = _that_enqueue(register)
