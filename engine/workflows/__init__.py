"""Decides about workflows: intents, policy, durable runs and their steps, events, approvals, declared workflows."""

from engine.workflows.approvals import ApprovalRow, decide_approval, list_approvals
from engine.workflows.declared.check import check_document
from engine.workflows.declared.store import enable_workflow, list_workflows, save_workflow
from engine.workflows.errors import ReplayDiverged, StepFailed, WorkflowFailed, WorkflowNotFound
from engine.workflows.events import Published, publish_event, signal_run
from engine.workflows.intents import NewIntent, request_workflow, request_workflows
from engine.workflows.policy import Verdict, check_policy
from engine.workflows.registry import registered_workflows, workflow
from engine.workflows.run import Decision, Run

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
