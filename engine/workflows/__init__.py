"""Decides about workflows: intents, policy, durable runs and their steps, events, approvals, declared workflows."""

from atlas.engine.workflows.approvals import ApprovalRow, decide_approval, list_approvals
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.store import enable_workflow, list_workflows, save_workflow
from atlas.engine.workflows.errors import ReplayDiverged, StepFailed, WorkflowFailed, WorkflowNotFound
from atlas.engine.workflows.events import Published, publish_event, signal_run
from atlas.engine.workflows.intents import NewIntent, request_workflow, request_workflows
from atlas.engine.workflows.policy import Verdict, check_policy
from atlas.engine.workflows.registry import registered_workflows, workflow
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.waits import Decision

__all__ = [
    "ApprovalRow",
    "Decision",
    "NewIntent",
    "Published",
    "ReplayDiverged",
    "Run",
    "StepFailed",
    "Verdict",
    "WorkflowFailed",
    "WorkflowNotFound",
    "check_document",
    "check_policy",
    "decide_approval",
    "enable_workflow",
    "list_approvals",
    "list_workflows",
    "publish_event",
    "registered_workflows",
    "request_workflow",
    "request_workflows",
    "save_workflow",
    "signal_run",
    "workflow",
]
