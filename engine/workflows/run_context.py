"""The run, as a workflow's function sees it: everything durable is asked of it.

`step`, `transaction`, `effect`, `job`, `child`, `sleep`, `wait_event`, `approval`, `gather`, `now`, `uuid` and `random`
return what is recorded when the run is replayed. What is new is done, written, and only then returned. A wait that has
not ended raises `Suspended`: the run leaves the worker and memory, and comes back when what it waits for wakes its job
row.
"""

import inspect
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID, uuid4

import orjson

from atlas.bounds import LARGEST_INTEGER
from atlas.db.pool import Connection
from atlas.engine.effects.effect_call import OpenEffect, check_effect
from atlas.engine.effects.outcomes import EffectOptions
from atlas.engine.effects.run_effect import effect_in_run
from atlas.engine.jobs.arguments import WrongArgument, require_async, require_function, require_text, require_whole
from atlas.engine.jobs.backoff import policy_of, seconds_within
from atlas.engine.jobs.enqueue_call import job_key, plain_input
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.typed_job import JobFunction
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.workflows.branches import Branch, numbered, side_by_side
from atlas.engine.workflows.child_starts import begin_child
from atlas.engine.workflows.errors import Suspended
from atlas.engine.workflows.recorder import Recorder, check_step_name
from atlas.engine.workflows.step_call import StepCall, perform
from atlas.engine.workflows.step_options import Duration, JobOptions, Retry, StepOptions
from atlas.engine.workflows.step_values import job_output_reader
from atlas.engine.workflows.waits import (
    Decision,
    begin_approval,
    begin_event,
    begin_job,
    begin_sleep,
    child_output,
    decision_of,
    event_context,
    time_passed,
)

Arguments = TypeVarTuple("Arguments")
Input = TypeVar("Input")
Result = TypeVar("Result")

DEFAULT_RETRIES = 3
LONGEST_APPROVAL = timedelta(days=7)
# Times beyond these are as good as them, and every clock and program can represent these.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Undo:
    """What is done when the run fails after this was registered."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    retries: int


class Run:
    """One run of a workflow. Await its methods one after another; `gather` runs several side by side."""

    def __init__(self, recorder: Recorder, workflow: str) -> None:
        self._recorder = recorder
        self.workflow = workflow
        self.undos: dict[str, Undo] = {}

    @property
    def id(self) -> UUID:
        return self._recorder.run_id

    @property
    def tenant_id(self) -> UUID:
        return self._recorder.tenant_id

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
            call = StepCall(function, arguments, retries, policy_of(retry), _seconds(timeout))
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
        with self._recorder.enter(name, "step") as step:
            require_async("run.transaction", "function", function)
            require_whole("run.transaction", "retries", retries, least=0)
            call = StepCall(function, arguments, retries, policy_of(retry), _seconds(timeout), in_transaction=True)
            result: Result = await perform(self._recorder, step, call)
            return result

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

        A replay does not call again. Where nobody knows whether it was made, the run waits for a person.
        """
        check_effect("run.effect", name, function, options)
        branch, attempt = self._recorder.branch(), self._recorder.suspension.attempt
        step = f"{branch.path}{branch.next_use(name)}"
        how: StepOptions = {"retries": retries, "retry": retry, "timeout": timeout}
        return await effect_in_run(
            self, lambda: self._recorder.store.ledger(self.id, attempt, step), name, function, arguments, how, options
        )

    @overload
    async def job(
        self,
        name: str,
        job_type: JobFunction[Input, Input, ..., Awaitable[Result]],
        input: Input,
        **options: Unpack[JobOptions],
    ) -> Result: ...

    @overload
    async def job(
        self,
        name: str,
        job_type: JobFunction[Input, Input, ..., Result],
        input: Input,
        **options: Unpack[JobOptions],
    ) -> Result: ...

    @overload
    async def job(
        self,
        name: str,
        job_type: JobFunction[list[Input], Input, ..., Any],
        input: Input,
        **options: Unpack[JobOptions],
    ) -> Any: ...

    @overload
    async def job(
        self,
        name: str,
        job_type: str,
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[JobOptions],
    ) -> Any: ...

    async def job(
        self,
        name: str,
        job_type: str | JobFunction[Any, Any, ..., Any],
        input: Any = None,
        *,
        priority: int | None = None,
        retries: int | None = None,
        timeout: Duration | None = None,
        expires_in: Duration | None = None,
    ) -> Any:
        """Enqueue a job, wait for its end without holding a worker, and return its output.

        `job_type` is a name, or the function that `@job` decorates: then the output has the type that it returns.
        `retries` and `timeout` are the job's own. One that has not started after `expires_in` is canceled as expired.
        A job that fails, is canceled or deleted raises StepFailed.
        """
        with self._recorder.enter(name, "job") as step:
            if step.recorded is None:
                if priority is not None:
                    require_whole("run.job", "priority", priority)
                if retries is not None:
                    require_whole("run.job", "retries", retries, least=0)
                seconds, expiry = _seconds(timeout), _seconds(expires_in)
                job = NewJob(
                    job_key(job_type),
                    plain_input(input),
                    self.tenant_id,
                    priority=priority,
                    max_retries=retries,
                    timeout_seconds=None if seconds is None else min(max(1, round(seconds)), LARGEST_INTEGER),
                    correlation_id=self._recorder.correlation_id,
                    source="workflow",
                    source_ref=str(self.id),
                    parent_run_id=self.id,
                    expires_in=None if expiry is None else timedelta(seconds=expiry),
                    allow_unknown=True,
                )
                await begin_job(self._recorder, step, job)
            return await child_output(self._recorder, step, job_output_reader(job_type))

    async def child(
        self, name: str, workflow: str, input: Mapping[str, Any] | None = None, *, timeout: Duration | None = None
    ) -> Any:
        """Start another workflow, wait for its end, and return its output.

        After `timeout` the child is canceled and StepFailed is raised, as it is when the child fails. Policy judges the
        start: one that it blocks, or that needs an approval and does not get it, raises StepFailed too.
        """
        with self._recorder.enter(name, "child") as step:
            await begin_child(self._recorder, step, workflow, input or {}, _seconds(timeout))
            return await child_output(self._recorder, step, orjson.loads)

    async def sleep(self, duration: Duration, *, name: str = "sleep") -> None:
        """Go on after this long. The run holds no worker meanwhile."""
        with self._recorder.enter(name, "sleep") as step:
            if step.recorded is None:
                await begin_sleep(self._recorder, step, wake_after=seconds_within(duration))
            await time_passed(self._recorder, step)

    async def sleep_until(self, time: datetime, *, name: str = "sleep") -> None:
        """Go on at this time, or at once if it has passed. A time without a zone is UTC."""
        with self._recorder.enter(name, "sleep") as step:
            if step.recorded is None:
                if not isinstance(time, datetime):
                    raise WrongArgument("run.sleep_until", "time", "a datetime", time)
                wanted = time if time.tzinfo else time.replace(tzinfo=UTC)
                await begin_sleep(self._recorder, step, wake_at=min(max(wanted, LONG_AGO), FAR_OFF))
            await time_passed(self._recorder, step)

    @overload
    async def wait_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = ...,
        timeout: None = ...,
        *,
        step: str | None = ...,
        required: bool = ...,
    ) -> dict[str, Any]: ...

    @overload
    async def wait_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = ...,
        timeout: Duration | None = ...,
        *,
        step: str | None = ...,
        required: Literal[True],
    ) -> dict[str, Any]: ...

    @overload
    async def wait_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = ...,
        timeout: Duration | None = ...,
        *,
        step: str | None = ...,
        required: bool = ...,
    ) -> dict[str, Any] | None: ...

    async def wait_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        *,
        step: str | None = None,
        required: bool = False,
    ) -> dict[str, Any] | None:
        """Wait for an event of this name whose context contains `match`; its context, or None after `timeout`.

        Every event since the run was asked for counts, and each ends one wait of the run: none comes too early.
        With `required` the timeout is a failure of the step (StepFailed).
        """
        with self._recorder.enter(step or name, "event") as entered:
            if entered.recorded is None:
                require_text("run.wait_event", "name", name)
                await begin_event(self._recorder, entered, name, match or {}, _seconds(timeout))
            return await event_context(self._recorder, entered, required=required)

    async def approval(
        self,
        name: str,
        *,
        title: str,
        expires: Duration = LONGEST_APPROVAL,
        detail: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Ask a person, other than who asked for the run. Rejected or expired is a Decision that is false."""
        with self._recorder.enter(name, "approval") as step:
            if step.recorded is None:
                require_text("run.approval", "title", title)
                await begin_approval(self._recorder, step, title, detail or {}, seconds_within(expires))
            return await decision_of(self._recorder, step)

    async def gather(self, *branches: Awaitable[Any], name: str = "gather") -> list[Any]:
        """Do several things side by side and return what each returned, in order.

        Each is a branch with steps of its own: `await run.gather(run.job(…), one(run), two(run))`. It waits for all of
        them; if some fail, the first of those in order is raised when the others have ended.
        """
        require_text("run.gather", "name", name)
        for branch in branches:
            if not inspect.isawaitable(branch):
                raise WrongArgument("run.gather", "branches", "calls of the run", branch)
        keys = [str(number) for number in range(len(branches))]
        works: list[Callable[[], Awaitable[Any]]] = [lambda one=one: one for one in branches]  # type: ignore[misc]
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

    async def _value(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        with self._recorder.enter(name, "value") as step:
            if step.recorded is not None:
                return orjson.loads(step.recorded.output or "null")
            value = await make()
            await self._recorder.record(step, "succeeded", output=orjson.dumps(value).decode())
            return value


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else seconds_within(duration)
