"""Runs a declared workflow: each step is a branch that begins when the steps it needs have ended."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Literal

from atlas.engine.helper_process import HelperPool, run_here
from atlas.engine.schemas import is_quick, schema_errors
from atlas.engine.templates import references
from atlas.engine.workflows.declared.document import Document, Step, UndoStep, seconds_of
from atlas.engine.workflows.declared.template_turns import Filling
from atlas.engine.workflows.errors import FailureReached, StepFailed, Suspended, WorkflowFailed
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.run_waits import MAX_APPROVAL_WAIT
from atlas.engine.workflows.steps.branches import current
from atlas.engine.workflows.steps.history import UNDO

MAX_ITEMS = 1000

# Check inputs by a tenant's schema where that may take long: the worker's lease and its other jobs need the event loop.
HELPERS = HelperPool(2)

Ended = Literal["succeeded", "failed", "skipped", "blocked", "broken"]


async def run_document(run: Run, document: Document, input: dict[str, Any]) -> Any:
    """The document's output, or the outputs of its last steps."""
    await _check_input(document, input)
    return await _Execution(run, document, input).run()


class _Execution:
    """One attempt at a document. It holds no state that replay does not restore."""

    def __init__(self, run: Run, document: Document, input: dict[str, Any]) -> None:
        self._run = run
        self._document = document
        self._input = input
        self._filling = Filling(run)
        self._results: dict[str, dict[str, Any]] = {}
        loop = asyncio.get_running_loop()
        self._ended: dict[str, asyncio.Future[Ended]] = {step.id: loop.create_future() for step in document.steps}

    async def run(self) -> Any:
        steps = self._document.steps
        works: list[Callable[[], Awaitable[Any]]] = [lambda step=step: self._step(step) for step in steps]  # type: ignore[misc]
        await self._run.branch_out("", [_branch_of(step) for step in steps], works)
        if self._document.output is not None:
            scope = {"input": self._input, "run": self._facts(), "steps": self._results}
            return await self._filling.fill(self._document.output, scope, "output")
        done = [step.id for step in self._document.last if self._results[step.id]["status"] != "skipped"]
        return {id: self._results[id]["output"] for id in done}

    async def _step(self, step: Step) -> None:
        """One step's branch, from waiting for its needs to notifying the steps that need it."""
        ended: Ended = "broken"
        try:
            ended = await self._begin(step)
        except Suspended:
            ended = "blocked"
            raise
        finally:
            if not self._ended[step.id].done():
                self._ended[step.id].set_result(ended)

    async def _begin(self, step: Step) -> Ended:
        needs = [await self._ended[need] for need in step.needs]
        if "blocked" in needs:
            branch = current.get()
            assert branch is not None
            branch.suspended = True
            raise Suspended
        if "broken" in needs:
            return "broken"
        if "skipped" in needs or not await self._is_needed(step):
            self._results[step.id] = {"status": "skipped", "output": None}
            return "skipped"
        return await self._attempt(step)

    async def _attempt(self, step: Step) -> Ended:
        done: dict[int, Any] = {}
        try:
            output = await self._act(step, done)
        except (Exception, Suspended, FailureReached) as error:
            # The run may fail here: by this step, or by another while this one waits.
            await self._register(step, "failed", done)
            if step.on_failure != "continue" or not isinstance(error, StepFailed):
                raise
            self._results[step.id] = {"status": "failed", "output": None, "error": error.reason}
            return "failed"
        self._results[step.id] = {"status": "succeeded", "output": output}
        await self._register(step, "succeeded", done)
        return "succeeded"

    async def _is_needed(self, step: Step) -> bool:
        if step.if_ is None or isinstance(step.if_, bool):
            return step.if_ is not False
        return await self._filling.holds(step.if_, self._scope(step), f"steps.{step.id}.if")

    async def _act(self, step: Step, done: dict[int, Any]) -> Any:
        """Do the step; the output of each item is also put into `done`."""
        if step.each is None:
            return await self._act_once(step, self._scope(step))
        scopes = await self._scopes(step)

        async def act(scope: dict[str, Any]) -> Any:
            done[scope["index"]] = output = await self._act_once(step, scope)
            return output

        works: list[Callable[[], Awaitable[Any]]] = [lambda scope=scope: act(scope) for scope in scopes]  # type: ignore[misc]
        return await self._run.branch_out("each", [str(number) for number in range(len(scopes))], works)

    async def _scopes(self, step: Step, *, shared: bool = True) -> list[dict[str, Any]]:
        """The scope of the step's templates, for each of its items."""
        scope = self._scope(step)
        items = await self._filling.fill(step.each, scope, f"steps.{step.id}.each", shared=shared)
        if not isinstance(items, list) or len(items) > MAX_ITEMS:
            raise WorkflowFailed(f"Step {step.id!r}: each is not a list of at most {MAX_ITEMS} items.", {})
        return [{**scope, "item": item, "index": index} for index, item in enumerate(items)]

    async def _act_once(self, step: Step, scope: dict[str, Any]) -> Any:
        timeout = None if step.timeout is None else seconds_of(step.timeout)
        match step.kind:
            case "job":
                filled = await self._with(step, scope)
                return await self._run.job(step.id, str(step.job), filled, retries=step.retries, timeout=timeout)
            case "workflow":
                return await self._child(step, scope, timeout)
            case "sleep":
                return await self._sleep(step, scope)
            case "event":
                filled = await self._with(step, scope)
                return await self._run.wait_event(str(step.event), filled, timeout, step=step.id, required=True)
            case _:
                filled = await self._with(step, scope)
                title = "" if self._run.begins_nothing else await self._title(step, scope)
                expires = MAX_APPROVAL_WAIT if timeout is None else timedelta(seconds=timeout)
                return asdict(await self._run.approval(step.id, title=title, expires=expires, detail=filled))

    async def _with(self, step: Step, scope: dict[str, Any]) -> dict[str, Any]:
        """The step's filled-in `with`; empty if the step is recorded."""
        if self._run.begins_nothing:
            return {}
        filled: dict[str, Any] = await self._filling.fill(step.with_, scope, f"steps.{step.id}.with")
        return filled

    async def _title(self, step: Step, scope: dict[str, Any]) -> str:
        return str(await self._filling.fill(step.approval, scope, f"steps.{step.id}.approval"))

    async def _child(self, step: Step, scope: dict[str, Any], timeout: float | None) -> Any:
        for left in range(step.retries or 0, -1, -1):
            filled = await self._with(step, scope)
            try:
                return await self._run.child(step.id, str(step.workflow), filled, timeout=timeout)
            except StepFailed:
                if left == 0:
                    raise
        raise AssertionError("unreachable")

    async def _sleep(self, step: Step, scope: dict[str, Any]) -> None:
        if self._run.begins_nothing:
            await self._run.sleep(0, name=step.id)
            return
        value = await self._filling.fill(step.sleep, scope, f"steps.{step.id}.sleep")
        seconds = seconds_of(value)
        if seconds is not None:
            await self._run.sleep(seconds, name=step.id)
            return
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError as error:
            raise WorkflowFailed(f"Step {step.id!r}: {value!r} is neither a duration nor a time.", {}) from error
        await self._run.sleep_until(time, name=step.id)

    async def _register(self, step: Step, status: str, done: dict[int, Any]) -> None:
        """One undoing of the step when it has succeeded, or one of each item that has, if its `with` names them."""
        undo = step.on_failure
        if not isinstance(undo, UndoStep):
            return
        if _is_of_items(step, undo):
            scopes = await self._scopes(step, shared=False) if done else []
            result = {"status": status, "output": [done.get(index) for index in range(len(scopes))]}
            for index in sorted(done):
                # Its own number: which of the others have succeeded may change until all is undone.
                await self._register_one(step, undo, scopes[index], result, index + 1)
        elif status == "succeeded":
            await self._register_one(step, undo, self._scope(step), self._results[step.id], 1)

    async def _register_one(
        self, step: Step, undo: UndoStep, scope: dict[str, Any], result: dict[str, Any], number: int
    ) -> None:
        scope["steps"] = {**scope.get("steps", {}), step.id: result}
        filled = await self._filling.fill(undo.with_, scope, f"steps.{step.id}.onFailure.with", shared=False)
        act = self._run.job if undo.job is not None else self._run.child
        self._run.on_failure(step.id, act, f"undo {step.id}", undo.job or undo.workflow, filled, number=number)

    def _scope(self, step: Step) -> dict[str, Any]:
        before = self._document.ancestors(step.id)
        scope: dict[str, Any] = {"input": self._input, "run": self._facts()}
        if before:
            scope["steps"] = {id: result for id, result in self._results.items() if id in before}
        events = [step.id for step in self._document.steps if step.id in before and step.kind == "event"]
        if events:
            scope["event"] = self._results[events[-1]]["output"]
        return scope

    def _facts(self) -> dict[str, Any]:
        return {"id": str(self._run.id), "workflow": self._run.workflow, "requested_by": self._run.requested_by}


def _is_of_items(step: Step, undo: UndoStep) -> bool:
    return step.each is not None and any(path[0] in ("item", "index") for path in references(undo.with_))


def _branch_of(step: Step) -> str:
    """A step's branch has its name, but for one: a failed run is undone in the branch of that name."""
    return step.id if f"{step.id}/" != UNDO else f"{step.id}-"


async def _check_input(document: Document, input: dict[str, Any]) -> None:
    run = run_here if is_quick(document.input_schema, input) else HELPERS.run
    errors = await run(schema_errors, document.input_schema, input)
    if errors:
        text = "; ".join(f"{error.field}: {error.reason}" for error in errors[:5])
        raise WorkflowFailed(f"The input does not fit the workflow {document.key}: {text}.", {})
