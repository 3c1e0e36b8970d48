"""What a run waits for, and leaves its worker meanwhile: jobs, children, times, events and approvals."""

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, Unpack, overload
from uuid import UUID

import orjson

from atlas.bounds import MAX_INTEGER
from atlas.engine.jobs.backoff import seconds_within
from atlas.engine.jobs.handlers.arguments import WrongArgument, require_text, require_whole
from atlas.engine.jobs.handlers.typed_job import JobFunction
from atlas.engine.jobs.new_jobs.enqueue_call import job_key, plain_input
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.workflows.child_starts import begin_child
from atlas.engine.workflows.steps.recorder import Recorder
from atlas.engine.workflows.steps.step_options import Duration, JobOptions
from atlas.engine.workflows.steps.step_values import job_output_reader
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

Input = TypeVar("Input")
Result = TypeVar("Result")

MAX_APPROVAL_WAIT = timedelta(days=7)
# Times beyond these are as good as them, and every clock and program can represent these.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(9000, 1, 1, tzinfo=UTC)


class RunWaits:
    """The waits of a run. One that has not ended raises `Suspended`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def id(self) -> UUID:
        return self._recorder.run_id

    @property
    def tenant_id(self) -> UUID:
        return self._recorder.tenant_id

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
                seconds, expiry = seconds_of(timeout), seconds_of(expires_in)
                job = NewJob(
                    job_key(job_type),
                    plain_input(input),
                    self.tenant_id,
                    priority=priority,
                    max_retries=retries,
                    timeout_seconds=None if seconds is None else min(max(1, round(seconds)), MAX_INTEGER),
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
            await begin_child(self._recorder, step, workflow, input or {}, seconds_of(timeout))
            return await child_output(self._recorder, step, orjson.loads)

    async def sleep(self, duration: Duration, *, name: str = "sleep") -> None:
        """Go on after this long. The run holds no worker meanwhile."""
        with self._recorder.enter(name, "sleep") as step:
            if step.recorded is None:
                await begin_sleep(self._recorder, step, wake_after=seconds_within(duration))
            await time_passed(self._recorder, step)

    async def sleep_until(self, time: datetime, *, name: str = "sleep") -> None:
        """Continue at this time, or immediately if it has passed. A time without a zone is UTC."""
        with self._recorder.enter(name, "sleep") as step:
            if step.recorded is None:
                if not isinstance(time, datetime):
                    raise WrongArgument("run.sleep_until", "time", "a datetime", time)
                moment = time if time.tzinfo else time.replace(tzinfo=UTC)
                await begin_sleep(self._recorder, step, wake_at=min(max(moment, LONG_AGO), FAR_OFF))
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
                await begin_event(self._recorder, entered, name, match or {}, seconds_of(timeout))
            return await event_context(self._recorder, entered, required=required)

    async def approval(
        self,
        name: str,
        *,
        title: str,
        expires: Duration = MAX_APPROVAL_WAIT,
        detail: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Ask a person, other than who asked for the run. Rejected or expired is a Decision that is false."""
        with self._recorder.enter(name, "approval") as step:
            if step.recorded is None:
                require_text("run.approval", "title", title)
                await begin_approval(self._recorder, step, title, detail or {}, seconds_within(expires))
            return await decision_of(self._recorder, step)


def seconds_of(duration: Duration | None) -> float | None:
    """A duration in seconds, within what clocks can represent."""
    return None if duration is None else seconds_within(duration)
