"""The run, as a workflow's function sees it: everything durable is asked of it.

`step`, `transaction`, `effect`, `job`, `child`, `sleep`, `wait_event`, `approval`, `gather`, `now`, `uuid` and `random`
return what is recorded when the run is replayed. What is new is done, written, and only then returned. A wait that has
not ended raises `Suspended`: the run leaves the worker and memory, and comes back when what it waits for wakes its job
row.
"""

import inspect
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID, uuid4

import orjson

from atlas.db.pool import Connection
from atlas.engine.effects.effect_call import OpenEffect, check_effect
from atlas.engine.effects.outcomes import EffectOptions
from atlas.engine.effects.run_effect import effect_in_run
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.handlers.arguments import (
    WrongArgument,
    require_async,
    require_function,
    require_text,
    require_whole,
)
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.workflows.errors import Suspended
from atlas.engine.workflows.run_waits import RunWaits, seconds_of
from atlas.engine.workflows.steps.branches import Branch, numbered, side_by_side
from atlas.engine.workflows.steps.recorder import Recorder, check_step_name
from atlas.engine.workflows.steps.step_call import InTransaction, StepCall, perform
from atlas.engine.workflows.steps.step_options import Duration, Retry, StepOptions
from atlas.engine.workflows.steps.step_transaction import AsyncTransaction, in_async_transaction

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

DEFAULT_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Undo:
    """What is done when the run fails after this was registered."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    retries: int


class Run(RunWaits):
    """One run of a workflow. Await its methods one after another; `gather` runs several side by side."""

    def __init__(self, recorder: Recorder, workflow: str) -> None:
        super().__init__(recorder)
        self.workflow = workflow
        self.undos: dict[str, Undo] = {}

    @property
    def requested_by(self) -> str:
        """The subject of who asked for the run."""
        return self._recorder.requested_by

    @property
    def is_undone(self) -> bool:
        """Whether the run has failed, and is called to undo what it did."""
        return self._recorder.history.failure is not None

    @property
    def begins_nothing(self) -> bool:
        """Whether the next step of this branch is recorded or comes too late: its arguments do not matter."""
        branch = self._recorder.branch()
        return self.is_undone or (branch.path, branch.position) in self._recorder.history

    def abort(self, error: PermanentError) -> None:
        """End the run with this failure, even if its branches catch it."""
        self._recorder.fatal = self._recorder.fatal or error

    def idempotency_key(self, step: str) -> str:
        """The same for every attempt of a step, and each its own: pass it to providers that know such keys.

        It is that of the next step of this name in this branch or, asked for in a step's function, of that very step.
        """
        require_text("run.idempotency_key", "step", step)
        branch = self._recorder.branch()
        return f"{self.id}:{branch.path}{branch.next_use(step)}"

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Arguments], Awaitable[Result]],
        *arguments: *Arguments,
        **options: Unpack[StepOptions],
    ) -> Result: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Arguments], Result],
        *arguments: *Arguments,
        **options: Unpack[StepOptions],
    ) -> Result: ...

    async def step(
        self,
        name: str,
        function: Callable[[*Arguments], Any],
        *arguments: *Arguments,
        retries: int = DEFAULT_RETRIES,
        retry: Retry = "capped",
        timeout: Duration | None = None,
    ) -> Any:
        """Call the function once, however often the run is replayed, and return what it returned.

        An async function runs on the event loop, a plain one in a thread. When it raises it is tried again, `retries`
        times, waiting by the `retry` policy; then StepFailed is raised here. PermanentError is not tried again.
        """
        with self._recorder.enter(name, "step") as step:
            require_function("run.step", "function", function)
            require_whole("run.step", "retries", retries, least=0)
            call = StepCall(function, arguments, retries, policy_of(retry), seconds_of(timeout))
            return await perform(self._recorder, step, call)

    async def transaction(
        self,
        name: str,
        function: Callable[["Connection", *Arguments], Awaitable[Result]],
        *arguments: *Arguments,
        retries: int = DEFAULT_RETRIES,
        retry: Retry = "capped",
        timeout: Duration | None = None,
    ) -> Result:
        """Call the async function once in a transaction on the application's database, and return what it returned.

        It gets the connection first. What it writes and the record of the step are one commit, so that neither is there
        without the other. Options and failures are those of `step`; whenever it is tried again, nothing of it stayed.
        """
        require_async("run.transaction", "function", function)
        within = in_async_transaction(self._open, function)
        options: StepOptions = {"retries": retries, "retry": retry, "timeout": timeout}
        result: Result = await self.transaction_of(name, within, function, arguments, **options)
        return result

    async def transaction_of(
        self,
        name: str,
        within: InTransaction,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        retries: int = DEFAULT_RETRIES,
        retry: Retry = "capped",
        timeout: Duration | None = None,
    ) -> Any:
        """The same in a transaction of another library, for `run_transaction` of `atlas.integrations`."""
        with self._recorder.enter(name, "step") as step:
            require_whole("run.transaction", "retries", retries, least=0)
            call = StepCall(function, arguments, retries, policy_of(retry), seconds_of(timeout), within)
            return await perform(self._recorder, step, call)

    async def effect(
        self,
        name: str,
        function: Callable[[OpenEffect, *Arguments], Awaitable[str | None]],
        *arguments: *Arguments,
        retries: int = DEFAULT_RETRIES,
        retry: Retry = "capped",
        timeout: Duration | None = None,
        **options: Unpack[EffectOptions],
    ) -> str | None:
        """Call a provider as `JobContext.effect` does, as a step whose result is the provider's reference.

        A replay does not call again. Where no one knows whether it was made, the run waits for a person.
        """
        check_effect("run.effect", name, function, options)
        branch, attempt = self._recorder.branch(), self._recorder.suspension.attempt
        step = f"{branch.path}{branch.next_use(name)}"
        how: StepOptions = {"retries": retries, "retry": retry, "timeout": timeout}
        return await effect_in_run(
            self, lambda: self._recorder.store.ledger(self.id, attempt, step), name, function, arguments, how, options
        )

    async def gather(self, *branches: Awaitable[Any], name: str = "gather") -> list[Any]:
        """Call several functions side by side and return what each returned, in order.

        Each is a branch with steps of its own: `await run.gather(run.job(…), one(run), two(run))`. It waits for all of
        them; if some fail, the first of those in order is raised when the others have ended.
        """
        require_text("run.gather", "name", name)
        for branch in branches:
            if not inspect.isawaitable(branch):
                raise WrongArgument("run.gather", "branches", "calls of the run", branch)
        keys = [str(number) for number in range(len(branches))]
        works: list[Callable[[], Awaitable[Any]]] = [lambda branch=branch: branch for branch in branches]  # type: ignore[misc]
        return await self.branch_out(name, keys, works)

    async def branch_out(self, name: str, keys: list[str], works: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Like `gather`, with a name for each branch."""
        parent = self._recorder.branch()
        if parent.suspended:
            raise Suspended
        prefix = f"{parent.path}{parent.unique(name)}" if name else parent.path
        paths = [f"{prefix}[{key}]/" if name else f"{prefix}{key}/" for key in keys]
        sides = [Branch(path, is_side=True) for path in paths]
        parent.begin(name or "the steps")
        try:
            return await side_by_side(sides, works)
        except Suspended:
            parent.suspended = True
            raise
        finally:
            parent.at_work = None

    async def now(self, *, name: str = "now") -> datetime:
        """The time on the database's clock, the same at every replay."""

        async def read() -> str:
            return (await self._recorder.store.now()).isoformat()

        return datetime.fromisoformat(await self._value(name, read))

    async def uuid(self, *, name: str = "uuid") -> UUID:
        """A random id, the same at every replay."""

        async def make() -> str:
            return str(uuid4())

        return UUID(await self._value(name, make))

    async def random(self, *, name: str = "random") -> float:
        """A random number of 0 up to 1, the same at every replay."""

        async def draw() -> float:
            return random.random()

        return float(await self._value(name, draw))

    def on_failure(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        retries: int = DEFAULT_RETRIES,
        number: int | None = None,
    ) -> None:
        """From here on, if the run fails, this is done: what was registered last is undone first.

        The function is called as a step. A method of the run itself (`run.job`, `run.child`, …) is done as such.
        Canceling a run does not undo anything. Several of one name are numbered as they come, or have a `number`.
        """
        check_step_name(name)
        require_function("run.on_failure", "function", function)
        require_whole("run.on_failure", "retries", retries, least=0)
        branch = self._recorder.branch()
        unique = numbered(name, number) if number else branch.unique(f"on_failure {name}").removeprefix("on_failure ")
        self.undos[f"{branch.path}{unique}"] = Undo(name, function, arguments, retries)

    def _open(self) -> AsyncTransaction:
        if self._recorder.step_commit is None:
            raise PermanentError("run.transaction takes a run that a worker executes.")
        return self._recorder.step_commit.open()

    async def _value(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        with self._recorder.enter(name, "value") as step:
            if step.recorded is not None:
                return orjson.loads(step.recorded.output or "null")
            value = await make()
            await self._recorder.record(step, "succeeded", output=orjson.dumps(value).decode())
            return value
