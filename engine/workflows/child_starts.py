"""Starts of child runs: each is judged by policy, as a request is.

A blocked start fails the step. A start under review waits for its approval first, which is recorded at the step itself;
once it is approved the step starts the child with the document that was reviewed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Never
from uuid import UUID

import orjson

from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.handlers.arguments import WrongArgument
from atlas.engine.policy.judge import Verdict
from atlas.engine.validation import check_name
from atlas.engine.workflows.approvals import REVIEW_EXPIRES
from atlas.engine.workflows.errors import StepFailed
from atlas.engine.workflows.review import DocumentVersion, Subject, document_of
from atlas.engine.workflows.start_runs import ENGINE
from atlas.engine.workflows.steps.history import NewApproval, NewChild, Wait
from atlas.engine.workflows.steps.recorder import Recorder, StepPosition
from atlas.engine.workflows.steps.step_values import INPUT_BYTES, object_text, target_text

APPROVED = statement("engine/workflows/sql/approved_subject.sql")

# Runs that wait for each other, from the first to the last. Canceling the first reaches them all in one transaction.
MAX_DEPTH = 50


async def begin_child(
    recorder: Recorder, step: StepPosition, workflow: str, input: Mapping[str, Any], timeout: float | None
) -> None:
    """Start a workflow and wait for its end, or for the approval of its start. Returns if a child is recorded."""
    if step.recorded is None:
        await _begin(recorder, step, _child(workflow, input), timeout)
    elif step.recorded.status == "waiting" and step.recorded.child_id is None:
        await _go_on(recorder, step, _child(workflow, input), timeout)


async def _begin(recorder: Recorder, step: StepPosition, child: NewChild, timeout: float | None) -> Never:
    if recorder.suspension.depth + 1 >= MAX_DEPTH:
        message = f"{MAX_DEPTH} runs wait for each other already: a workflow may call itself without end."
        await recorder.fail(step, StepFailed(step.name, message, kind="TooDeep"))
    judged = await recorder.store.judge_child(recorder.tenant_id, child.workflow)
    if judged.verdict.effect == "block":
        await _fail_blocked(recorder, step, child, judged.verdict)
    if judged.subject is not None:
        await _request_review(recorder, step, child, judged.verdict, judged.subject)
    await _start(recorder, step, replace(child, is_counted=judged.is_counted), timeout)


async def _go_on(recorder: Recorder, step: StepPosition, child: NewChild, timeout: float | None) -> Never:
    """The step waits for the approval of its child's start: look whether it was decided."""
    recorded = step.recorded
    assert recorded is not None
    if recorded.approval_status in (None, "pending"):
        recorder.block(step)
    if recorded.approval_status != "approved":
        decided = (
            f"{recorded.approval_by} rejected it" if recorded.approval_status == "rejected" else "no one approved it"
        )
        message = f"The workflow {child.workflow} was not started: {decided}."
        await recorder.fail(step, StepFailed(step.name, message, kind="Rejected"))
    judged = await recorder.store.judge_child(recorder.tenant_id, child.workflow)
    if judged.verdict.effect == "block":
        await _fail_blocked(recorder, step, child, judged.verdict)
    document = await recorder.store.at_once(lambda conn: _approved_document(conn, recorder.run_id, step))
    await _start(recorder, step, replace(child, document=document), timeout)


async def _start(recorder: Recorder, step: StepPosition, child: NewChild, timeout: float | None) -> Never:
    target = target_text(child.workflow, child.input)
    wait = Wait(step.branch.path, step.position, step.name, step.kind, input=target, child=child, wake_after=timeout)
    await recorder.wait(step, wait)


async def _request_review(
    recorder: Recorder, step: StepPosition, child: NewChild, verdict: Verdict, subject: Subject
) -> Never:
    detail = object_text("The approval", {"reason": verdict.reason, "input": child.input}, field="detail")
    expires = REVIEW_EXPIRES.total_seconds()
    question = NewApproval(f"Start {child.workflow}?", expires, detail, orjson.dumps(subject).decode())
    target = target_text(child.workflow, child.input)
    wait = Wait(
        step.branch.path, step.position, step.name, step.kind, input=target, approval=question, wake_after=expires
    )
    await recorder.wait(step, wait)


async def _fail_blocked(recorder: Recorder, step: StepPosition, child: NewChild, verdict: Verdict) -> Never:
    event = Event(
        action="CHILD_BLOCKED",
        entity_type="run",
        entity_id=str(recorder.run_id),
        actor=ENGINE,
        tenant_id=recorder.tenant_id,
        message=verdict.reason,
        level="warn",
        meta={"workflow": child.workflow, "step": f"{step.branch.path}{step.name}", "decision": verdict.facts},
    )
    await recorder.store.at_once(lambda conn: record(conn, event))
    kind = "Disabled" if verdict.facts.get("disabled") else "Blocked"
    await recorder.fail(step, StepFailed(step.name, verdict.reason, kind=kind))


async def _approved_document(conn: Connection, run_id: UUID, step: StepPosition) -> DocumentVersion | None:
    subject = await fetch_value(conn, APPROVED, run_id=run_id, branch=step.branch.path, position=step.position)
    return None if subject is None else document_of(orjson.loads(subject))


def _child(workflow: str, input: Mapping[str, Any]) -> NewChild:
    if not isinstance(workflow, str) or check_name("workflow", workflow):
        raise WrongArgument("run.child", "workflow", "the name of a workflow", workflow)
    text = object_text(f"The input of {workflow}", input, field="input", limit=INPUT_BYTES)
    return NewChild(workflow, orjson.loads(text))
