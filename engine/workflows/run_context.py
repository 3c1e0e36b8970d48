"""The run, as a workflow's function sees it: everything durable is asked of it.

`step`, `job`, `child`, `sleep`, `wait_event`, `approval`, `gather`, `now`, `uuid` and `random` answer from the record
when the run is replayed. What is new is done, written, and only then answered. A wait that has not ended raises
`Suspended`: the run leaves the worker and memory, and comes back when what it waits for wakes its job row.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson

from atlas.db.pg_json import stored_text
from atlas.engine.jobs.backoff import RetryPolicy, policy_of, seconds_within
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.validation import check_name
from atlas.engine.workflows.branches import Branch, numbered, side_by_side
from atlas.engine.workflows.errors import StepFailed, Suspended
from atlas.engine.workflows.history import NewApproval, NewChild, RecordedStep, Wait
from atlas.engine.workflows.recorder import Recorder, StepPosition
from atlas.engine.workflows.step_call import StepCall, perform
from atlas.engine.workflows.step_values import ARGUMENT_BYTES, INPUT_BYTES, object_text
from atlas.errors import AtlasError, InvalidInput

Duration = timedelta | float | int

DEFAULT_RETRIES = 3
LONGEST_APPROVAL = timedelta(days=7)
LONGEST_TITLE = 500
# As many seconds as a job's row can hold.
LONGEST_TIMEOUT = 2**31 - 1
# Moments beyond these are as good as them, and every clock and program can say these.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(9000, 1, 1, tzinfo=UTC)
# Runs that wait for each other, from the first to the last. Canceling the first reaches them all in one transaction.
MOST_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person said. True only if they approved in time."""

    approved: bool
    status: str
    by: str | None = None
    comment: str | None = None

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True, slots=True)
class Undo:
    """What is done when the run fails after this was registered."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    retries: int


class Run:
    """One run of a workflow. Await its methods one after another; `gather` is for what goes on side by side."""

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
        """Whether what is asked for next in this branch is recorded or comes too late: its arguments do not matter."""
        branch = self._recorder.branch()
        return self.is_undone or (branch.path, branch.position) in self._recorder.history

    def give_up(self, error: PermanentError) -> None:
        """The run ends with this failure, whatever its branches make of it."""
        self._recorder.fatal = self._recorder.fatal or error

    def idempotency_key(self, step: str) -> str:
        """The same for every attempt of a step, and each its own: hand it to providers that know such keys.

        It is that of the next step of this name in this branch or, asked for in a step's function, of that very step.
        """
        branch = self._recorder.branch()
        return f"{self.id}:{branch.path}{branch.next_use(step)}"

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        retries: int = DEFAULT_RETRIES,
        retry: RetryPolicy | str | dict[str, Any] = "capped",
        timeout: Duration | None = None,
    ) -> Any:
        """Call the function once, however often the run is replayed, and answer what it answered.

        An async function runs on the event loop, a plain one in a thread. When it raises it is tried again, `retries`
        times, waiting by the `retry` policy; then StepFailed is raised here. PermanentError is not tried again.
        """
        with self._recorder.enter(name, "step") as place:
            call = StepCall(function, arguments, retries, policy_of(retry), _seconds(timeout))
            return await perform(self._recorder, place, call)

    async def job(
        self,
        name: str,
        job_type: str,
        input: Mapping[str, Any] | None = None,
        *,
        priority: int | None = None,
        retries: int | None = None,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Enqueue a job, wait for its end without holding a worker, and answer its output.

        `retries` and `timeout` are the job's own. A job that fails, is canceled or deleted raises StepFailed.
        """
        with self._recorder.enter(name, "job") as place:
            recorded = place.recorded
            if recorded is None:
                seconds = _seconds(timeout)
                job = NewJob(
                    job_type,
                    dict(input or {}),
                    self.tenant_id,
                    priority=priority,
                    max_retries=retries,
                    timeout_seconds=None if seconds is None else min(max(1, round(seconds)), LONGEST_TIMEOUT),
                    correlation_id=self._recorder.correlation_id,
                    source="workflow",
                    source_ref=str(self.id),
                    parent_run_id=self.id,
                )
                job = await self._admitted(place, job)
                await self._recorder.wait(place, _wait(place, input=_kept(job_type, job.input), job=job))
            return await self._child_output(place, recorded)

    async def child(
        self, name: str, workflow: str, input: Mapping[str, Any] | None = None, *, timeout: Duration | None = None
    ) -> dict[str, Any]:
        """Start another workflow, wait for its end, and answer its output.

        After `timeout` the child is canceled and StepFailed is raised, as it is when the child fails.
        """
        with self._recorder.enter(name, "child") as place:
            recorded = place.recorded
            if recorded is None:
                if self._recorder.suspension.depth + 1 >= MOST_DEPTH:
                    words = f"{MOST_DEPTH} runs wait for each other already: a workflow may call itself without end."
                    await self._recorder.fail(place, StepFailed(place.name, words, kind="TooDeep"))
                text = object_text(f"The input of {workflow}", input or {}, field="input", limit=INPUT_BYTES)
                new = NewChild(workflow, orjson.loads(text))
                if not await self._recorder.store.may_start(self.tenant_id, workflow):
                    words = f"The workflow {workflow} is disabled."
                    await self._recorder.fail(place, StepFailed(place.name, words, kind="Disabled"))
                wait = _wait(place, input=_kept(workflow, new.input), child=new, wake_after=_seconds(timeout))
                await self._recorder.wait(place, wait)
            return await self._child_output(place, recorded)

    async def sleep(self, duration: Duration, *, name: str = "sleep") -> None:
        """Go on after this long. The run holds no worker meanwhile."""
        with self._recorder.enter(name, "sleep") as place:
            if place.recorded is None:
                await self._recorder.wait(place, _wait(place, wake_after=_seconds(duration)))
            await self._due(place)

    async def sleep_until(self, moment: datetime, *, name: str = "sleep") -> None:
        """Go on at this moment, or at once if it has passed. A moment without a zone is UTC."""
        with self._recorder.enter(name, "sleep") as place:
            if place.recorded is None:
                wanted = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                await self._recorder.wait(place, _wait(place, wake_at=min(max(wanted, LONG_AGO), FAR_OFF)))
            await self._due(place)

    async def wait_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        *,
        step: str | None = None,
        required: bool = False,
    ) -> dict[str, Any] | None:
        """Wait for an event of this name whose context holds what `match` says; its context, or None after `timeout`.

        Every event since the run was asked for counts, and each ends one wait of the run: none comes too early.
        With `required` the timeout is a failure of the step (StepFailed).
        """
        with self._recorder.enter(step or name, "event") as place:
            recorded = place.recorded
            if recorded is None:
                wrong = check_name("name", name)
                if wrong:
                    raise InvalidInput("The event", wrong)
                wanted = object_text("The match", match or {}, field="match")
                wait = _wait(place, input=wanted, event_name=name, event_match=wanted, wake_after=_seconds(timeout))
                await self._recorder.wait(place, wait)
            assert recorded is not None
            if recorded.status == "failed":
                raise self._recorder.failure(place)
            if recorded.status == "waiting":
                if recorded.event_gone:
                    gone = StepFailed(place.name, "Its event came and is removed by now.", kind="EventGone")
                    await self._recorder.fail(place, gone)
                if recorded.event_context is None and not recorded.due:
                    self._recorder.block(place)
                if recorded.event_context is None and required:
                    await self._recorder.fail(place, StepFailed(place.name, "No event came in time.", kind="Timeout"))
                await self._recorder.record(place, "succeeded", output=recorded.event_context)
                return _loaded(recorded.event_context)
            return _loaded(recorded.output)

    async def approval(
        self,
        name: str,
        *,
        title: str,
        expires: Duration = LONGEST_APPROVAL,
        detail: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Ask a person. Who asked for the run may not answer. Rejected or expired is a Decision that is false."""
        with self._recorder.enter(name, "approval") as place:
            recorded = place.recorded
            if recorded is None:
                text = object_text("The approval", detail or {}, field="detail")
                seconds = _seconds(expires) or 0.0
                asked = NewApproval(stored_text(title)[:LONGEST_TITLE], seconds, text)
                await self._recorder.wait(place, _wait(place, input=text, approval=asked, wake_after=seconds))
            assert recorded is not None
            if recorded.status != "waiting":
                return Decision(**orjson.loads(recorded.output or "{}"))
            if recorded.approval_status in (None, "pending"):
                self._recorder.block(place)
            status = str(recorded.approval_status)
            decision = Decision(status == "approved", status, recorded.approval_by, recorded.approval_comment)
            await self._recorder.record(place, "succeeded", output=orjson.dumps(decision).decode())
            return decision

    async def gather(self, *branches: Awaitable[Any], name: str = "gather") -> list[Any]:
        """Do several things side by side and answer what each answered, in order.

        Each is a branch with steps of its own: `await run.gather(run.job(…), one(run), two(run))`. It waits for all of
        them; if some fail, the first of those in order is raised when the others have ended.
        """
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
        branch = self._recorder.branch()
        unique = numbered(name, number) if number else branch.unique(f"on_failure {name}").removeprefix("on_failure ")
        key = f"{branch.path}{unique}"
        self.undos[key] = Undo(name, function, arguments, retries)

    async def _admitted(self, place: StepPosition, job: NewJob) -> NewJob:
        """The job as it may be enqueued; one that may not be fails the step."""
        try:
            return await self._recorder.store.admit(job)
        except AtlasError as error:
            await self._recorder.fail(place, StepFailed(place.name, str(error), kind=type(error).__name__))

    async def _child_output(self, place: StepPosition, recorded: RecordedStep | None) -> dict[str, Any]:
        assert recorded is not None
        if recorded.status == "failed":
            raise self._recorder.failure(place)
        if recorded.status == "succeeded":
            return dict(orjson.loads(recorded.output or "{}"))
        if recorded.child_status in ("queued", "running"):
            if not recorded.due:
                self._recorder.block(place)
            if recorded.child_id is not None and not await self._recorder.store.cancel(recorded.child_id):
                self._recorder.look_again(place)
            await self._recorder.fail(place, StepFailed(place.name, "It did not end in time.", kind="Timeout"))
        if recorded.child_status != "succeeded":
            told = orjson.loads(recorded.child_error or "{}")
            words = {"failed": told.get("message", "it failed"), "canceled": "It was canceled."}
            reason = words.get(recorded.child_status or "", "It was deleted.")
            await self._recorder.fail(place, StepFailed(place.name, reason, kind=told.get("type", "Canceled")))
        await self._recorder.record(place, "succeeded", output=recorded.child_output)
        return dict(orjson.loads(recorded.child_output or "{}"))

    async def _due(self, place: StepPosition) -> None:
        assert place.recorded is not None
        if place.recorded.status == "waiting":
            if not place.recorded.due:
                self._recorder.block(place)
            await self._recorder.record(place, "succeeded")

    async def _value(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        with self._recorder.enter(name, "value") as place:
            if place.recorded is not None:
                return orjson.loads(place.recorded.output or "null")
            value = await make()
            await self._recorder.record(place, "succeeded", output=orjson.dumps(value).decode())
            return value


def _wait(place: StepPosition, **facts: Any) -> Wait:
    return Wait(place.branch.path, place.position, place.name, place.kind, **facts)


def _seconds(duration: Duration | None) -> float | None:
    if duration is None:
        return None
    return seconds_within(duration)


def _kept(target: str, input: Mapping[str, Any]) -> str:
    """What `show` tells of a child: large inputs are to be read in the child itself."""
    text = orjson.dumps({"target": target, "input": input}).decode()
    if len(text) <= ARGUMENT_BYTES:
        return text
    return orjson.dumps({"target": target, "input": f"({len(text)} characters)"}).decode()


def _loaded(text: str | None) -> dict[str, Any] | None:
    return None if text is None else orjson.loads(text)
