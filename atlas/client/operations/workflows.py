"""Workflows, requests for them, their runs, events, approvals and policies."""

# mypy: disable-error-code="empty-body"

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from atlas.client.errors import ApiNotFound
from atlas.client.methods import listing, method, operation
from atlas.client.route import ApiCaller, Id
from atlas.client.waiting import RunNotStarted, until_ended
from atlas.models.approvals import Approval, ApprovalSummary, Decided, PolicyRule, PolicyVerdict, RuleAdded
from atlas.models.base import Listed
from atlas.models.explain import RunExplanation
from atlas.models.workflows import (
    Checked,
    DryRun,
    EventPublished,
    EventRecord,
    Intent,
    ListedStep,
    RunCounts,
    RunId,
    RunStep,
    SavedWorkflow,
    Signaled,
    Stopped,
    Workflow,
    WorkflowRun,
    WorkflowSchema,
)


class RuleFields(TypedDict, total=False):
    """To which requests a rule of policy applies."""

    workflow: str
    except_workflows: list[str]
    spend_above_cents: int | None
    spend_per_day_cents: int | None
    runs_per_day: int | None


class WorkflowOperations(ApiCaller):
    """Save workflows, ask for runs, steer them and decide what they ask."""

    @listing("/workflows")
    def list_workflows(self) -> Workflow:
        """The workflows, by key, each in its newest version; those in the code of workers have version 0."""

    @operation("GET", "/workflows/{key}")
    def get_workflow(self, key: str) -> Workflow:
        """One workflow in its newest version; a tenant's own comes before one for all tenants."""

    @operation("POST", "/workflows")
    def save_workflow(
        self, document: Mapping[str, Any], *, expected_version: int = ..., if_match: str = ...
    ) -> SavedWorkflow:
        """Save a declared workflow as its newest version; ApiConflict if that follows another than the expected one."""

    @operation("POST", "/workflows/check", keyed=False)
    def check_workflow(self, document: Mapping[str, Any]) -> Checked:
        """Every error of a declared workflow, without saving it."""

    @operation("POST", "/workflows/dry-run", keyed=False)
    def dry_run_workflow(
        self, document: Mapping[str, Any], *, input: Mapping[str, Any] = ..., outputs: Mapping[str, Any] = ...
    ) -> DryRun:
        """What a run of a document would do with an input, without doing it. `outputs` are those of its steps."""

    @operation("GET", "/workflow-schema", by_tenant=False)
    def get_workflow_schema(self) -> WorkflowSchema:
        """The JSON Schema of declared workflows, and the names that templates may use."""

    @listing("/workflows/{key}/versions")
    def list_workflow_versions(self, key: str) -> Workflow:
        """The versions of a workflow, newest first."""

    @operation("GET", "/workflows/{key}/versions/{version}")
    def get_workflow_version(self, key: str, version: int) -> Workflow:
        """One version of a workflow."""

    @operation("POST", "/workflows/{key}/rollback")
    def roll_back_workflow(self, key: str, *, version: int, expected_version: int = ...) -> SavedWorkflow:
        """Save what an old version holds as the newest one. Runs keep the version they started with."""

    @operation("PATCH", "/workflows/{key}")
    def edit_workflow(self, key: str, *, is_enabled: bool, if_match: str = ...) -> None:
        """Let a workflow start, or not; running runs go on."""

    @operation("POST", "/intents")
    def request_run(
        self,
        workflow: str,
        input: Mapping[str, Any] = ...,
        *,
        priority: int = ...,
        spend_cents: int = ...,
        correlation_id: str | None = ...,
        allow_unknown: bool = ...,
        must_be_runnable: bool = ...,
        idempotency_key: str = ...,
    ) -> RunId:
        """Ask for a run. Policy allows it, sends it to a person, or blocks it. Its id is the run's."""

    @listing("/intents")
    def list_intents(self, *, workflow: str | None = ..., status: str | None = ...) -> Intent:
        """The requests for workflows, newest first."""

    @operation("GET", "/intents/{intent_id}")
    def get_intent(self, intent_id: Id) -> Intent:
        """One request, with what policy decided and by which rule."""

    @listing("/runs")
    def list_runs(
        self, *, workflow: str | None = ..., status: str | None = ..., parent_run_id: Id | None = ...
    ) -> WorkflowRun:
        """The runs that match, newest first."""

    @operation("GET", "/runs/summary")
    def summarize_runs(self) -> Listed[RunCounts]:
        """The newest 1,000 runs, counted by workflow and version."""

    @operation("GET", "/runs/{run_id}")
    def get_run(self, run_id: Id) -> WorkflowRun:
        """One run. A request that is not a run yet is found by `get_intent`."""

    @listing("/runs/{run_id}/steps")
    def list_run_steps(self, run_id: Id, *, key: str | None = ...) -> RunStep:
        """The steps of a run, in the order in which they started; or the one of a key."""

    @listing("/runs/{run_id}/steps/brief")
    def list_run_steps_briefly(self, run_id: Id) -> ListedStep:
        """The same without inputs and outputs."""

    @operation("GET", "/runs/{run_id}/explain")
    def explain_run(self, run_id: Id) -> RunExplanation:
        """Why a run, or the request for one, does not go on."""

    @operation("POST", "/runs/{run_id}/cancel")
    def cancel_run(self, run_id: Id) -> Stopped:
        """Stop a run and its children, or withdraw a request."""

    @operation("POST", "/runs/{run_id}/retry")
    def retry_run(self, run_id: Id) -> RunId:
        """Let a failed run go on from where it failed."""

    @operation("POST", "/runs/{run_id}/fork")
    def fork_run(self, run_id: Id, step: str) -> RunId:
        """Ask for a new run that reuses this one's results before a step."""

    @operation("POST", "/runs/{run_id}/signal")
    def signal_run(self, run_id: Id, name: str, context: Mapping[str, Any] = ...) -> Signaled:
        """Send an event to one run only."""

    @operation("GET", "/runs/{run_id}/workflow")
    def get_run_workflow(self, run_id: Id) -> Workflow:
        """The workflow of a run, in the version that it keeps."""

    @listing("/events")
    def list_events(
        self,
        *,
        name: str | None = ...,
        created_by: str | None = ...,
        correlation_id: str | None = ...,
        run_id: Id | None = ...,
        since: datetime | None = ...,
        until: datetime | None = ...,
    ) -> EventRecord:
        """The events, newest first; a name that ends in `.*` means every name under it."""

    @operation("GET", "/events/{event_id}")
    def get_event(self, event_id: Id) -> EventRecord:
        """One event."""

    @operation("POST", "/events")
    def publish_event(
        self,
        name: str,
        context: Mapping[str, Any] = ...,
        *,
        correlation_id: str | None = ...,
        idempotency_key: str = ...,
    ) -> EventPublished:
        """Publish an event. It wakes the runs that wait for it and fires the triggers on its name."""

    @listing("/approvals")
    def list_approvals(self, *, status: str | None = ..., run_id: Id | None = ...) -> Approval:
        """The approvals that match, newest first."""

    @operation("GET", "/approvals/summary")
    def summarize_approvals(self) -> ApprovalSummary:
        """How many approvals wait for a person."""

    @operation("GET", "/approvals/{approval_id}")
    def get_approval(self, approval_id: Id) -> Approval:
        """One approval, with the input that a decision holds for and its hash."""

    @operation("POST", "/approvals/{approval_id}/decision")
    def decide_approval(
        self, approval_id: Id, *, approve: bool, comment: str | None = ..., input_hash: str | None = ...
    ) -> Decided:
        """Approve or reject. ApiRefused for the one who asked for the work, under any name."""

    @listing("/policies")
    def list_policies(self) -> PolicyRule:
        """The rules that decide about requests, oldest first."""

    @operation("POST", "/policies")
    def create_policy(self, label: str, effect: str, **fields: Unpack[RuleFields]) -> RuleAdded:
        """Add a rule, for one tenant or for all."""

    @operation("POST", "/policies/check", keyed=False)
    def check_policy(self, workflow: str, *, spend_cents: int = ...) -> PolicyVerdict:
        """What policy would say to a request for a workflow, without making one."""

    @operation("GET", "/policies/{label}")
    def get_policy(self, label: str) -> PolicyRule:
        """One rule: the tenant's own, else the one for all tenants."""

    @operation("PATCH", "/policies/{label}")
    def edit_policy(
        self, label: str, *, effect: str = ..., if_match: str = ..., **fields: Unpack[RuleFields]
    ) -> PolicyRule:
        """Change a rule; None removes a bound."""

    @operation("DELETE", "/policies/{label}")
    def remove_policy(self, label: str) -> None:
        """Remove a rule."""

    @method
    async def wait_for_run(self, run: Id, *, timeout: float | None = None) -> WorkflowRun:
        """The run once it has ended; RunNotStarted if its request was blocked, NotEnded after `timeout` seconds."""
        return await until_ended(self, "run", run, _run_of_request, timeout)

    @method
    async def wait_for_approval(self, approval: Id, *, timeout: float | None = None) -> Approval:
        """The approval once it is decided, expired or withdrawn; NotEnded after `timeout` seconds."""
        return await until_ended(self, "approval", approval, WorkflowOperations.get_approval.begin, timeout)


async def _run_of_request(client: ApiCaller, run_id: Id) -> WorkflowRun | None:
    """The run, or None while it is only asked for."""
    try:
        return await WorkflowOperations.get_run.begin(client, run_id)
    except ApiNotFound:
        intent = await WorkflowOperations.get_intent.begin(client, run_id)
    if intent.never_runs:
        raise RunNotStarted(intent.workflow, intent.id, intent.status, intent.reason)
    return None
