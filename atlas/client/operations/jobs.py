"""Jobs."""

# mypy: disable-error-code="empty-body"

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from atlas.client.methods import listing, method, operation
from atlas.client.route import ApiCaller, Id
from atlas.client.waiting import until_ended
from atlas.models.base import Document, Listed
from atlas.models.effects import Effect, Settlement
from atlas.models.explain import JobExplanation
from atlas.models.jobs import (
    Attempt,
    BulkAction,
    BulkActionPreview,
    Canceled,
    DeadLetterGroups,
    EnqueuedJob,
    Job,
    JobGroup,
    JobRequest,
    JobSummary,
    ListedJob,
    PublishedJobType,
    Retried,
    Ticked,
)


class JobFilters(TypedDict, total=False):
    """Which jobs a list has, and in which order."""

    status: str | Sequence[str] | None
    # With it, `queued` includes `waiting`.
    include_scheduled: bool
    job_type: str | None
    source: str | None
    correlation_id: str | None
    id_prefix: str | None
    worker_id: str | None
    host_id: Id | None
    parent_run_id: Id | None
    error_type: str | None
    error_text: str | None
    error_pattern: str | None
    created_after: datetime | None
    created_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None
    group_id: Id | None
    order: str


class JobOperations(ApiCaller):
    """Enqueue jobs, look at them, cancel and retry them."""

    @operation("POST", "/jobs")
    def enqueue(self, body: JobRequest, *, idempotency_key: str = ...) -> EnqueuedJob:
        """Enqueue one job. A program that may repeat the call after a crash gives its own idempotency key."""

    @method
    async def enqueue_many(
        self, jobs: Sequence[JobRequest], *, idempotency_key: str | None = None
    ) -> list[EnqueuedJob]:
        """Enqueue up to 1,000 jobs, all or none."""
        if not jobs:
            return []
        return await JobOperations._enqueue_list.begin(self, list(jobs), idempotency_key=idempotency_key)

    @operation("POST", "/jobs")
    def _enqueue_list(self, body: list[JobRequest], *, idempotency_key: str | None) -> list[EnqueuedJob]:
        """Enqueue a list of jobs that is not empty."""

    @operation("GET", "/jobs/{job_id}")
    def get_job(self, job_id: Id) -> Job:
        """One job; ApiNotFound if there is none for this token."""

    @listing("/jobs")
    def list_jobs(self, **filters: Unpack[JobFilters]) -> Job:
        """The jobs that match, newest first; with `order="ended"` those that failed or were canceled, by their end."""

    @listing("/jobs/brief")
    def list_jobs_briefly(self, **filters: Unpack[JobFilters]) -> ListedJob:
        """The same jobs without their payloads and outputs."""

    @listing("/jobs/{job_id}/attempts")
    def list_job_attempts(self, job_id: Id) -> Attempt:
        """Every attempt at a job, oldest first."""

    @operation("GET", "/jobs/{job_id}/explain")
    def explain_job(self, job_id: Id) -> JobExplanation:
        """Why a job is not running, or who runs it."""

    @operation("GET", "/jobs/explain")
    def explain_jobs(self, *, id: Sequence[Id] = ...) -> Listed[JobExplanation]:
        """The same for up to 100 jobs."""

    @operation("POST", "/jobs/{job_id}/enqueue-again")
    def enqueue_job_again(self, job_id: Id, *, idempotency_key: str = ...) -> EnqueuedJob:
        """Enqueue a new job like this one, with its secrets."""

    @operation("GET", "/jobs/dead-letters")
    def group_dead_letters(self) -> DeadLetterGroups:
        """Dead letters by type and error, newest first."""

    @operation("POST", "/jobs/bulk/preview")
    def preview_bulk_action(
        self, action: str, filter: Document = ..., *, ids: Sequence[Id] = ..., limit: int | None = ...
    ) -> BulkActionPreview:
        """Count the jobs that an action by a filter or by ids would change, up to `limit`, and keep them for it."""

    @operation("POST", "/jobs/bulk")
    def begin_bulk_action(
        self,
        action: str,
        *,
        ids: Sequence[Id] = ...,
        filter: Document = ...,
        digest: str | None = ...,
        rate_per_second: float | None = ...,
        reason: str = ...,
    ) -> BulkAction:
        """Retry, cancel, delete or discard many jobs: by their ids, a preview's digest, or the filter of a list."""

    @listing("/jobs/bulk")
    def list_bulk_actions(self) -> BulkAction:
        """The actions on many jobs, newest first."""

    @operation("GET", "/jobs/bulk/{bulk_id}")
    def get_bulk_action(self, bulk_id: Id) -> BulkAction:
        """How far an action on many jobs is."""

    @operation("POST", "/jobs/bulk/{bulk_id}/cancel")
    def cancel_bulk_action(self, bulk_id: Id) -> BulkAction:
        """Stop an action on many jobs; what it has done stays done."""

    @operation("POST", "/groups")
    def enqueue_group(
        self, jobs: Sequence[JobRequest], *, then: JobRequest | None = ..., name: str = ..., idempotency_key: str = ...
    ) -> JobGroup:
        """Enqueue up to 1,000 jobs as one group, all or none; `then` is enqueued once when all of them have ended."""

    @listing("/groups")
    def list_groups(self) -> JobGroup:
        """The groups of jobs, newest first."""

    @operation("GET", "/groups/{group_id}")
    def get_group(self, group_id: Id) -> JobGroup:
        """One group, with its jobs by status."""

    @operation("POST", "/groups/{group_id}/cancel")
    def cancel_group(self, group_id: Id) -> BulkAction:
        """Cancel all jobs of a group that have not ended."""

    @operation("POST", "/groups/{group_id}/retry")
    def retry_group(self, group_id: Id) -> BulkAction:
        """Retry the jobs of a group that failed or were canceled. What followed it is not enqueued again."""

    @operation("POST", "/jobs/{job_id}/cancel")
    def cancel_job(self, job_id: Id) -> Canceled:
        """Cancel a job: immediately, or by asking the worker that runs it. ApiConflict if it has ended."""

    @operation("POST", "/jobs/{job_id}/retry")
    def retry_job(self, job_id: Id) -> Retried:
        """Queue a failed or canceled job again, as new."""

    @operation("DELETE", "/jobs/{job_id}")
    def delete_job(self, job_id: Id) -> None:
        """Delete a job that does not run, with its attempts and its secrets."""

    @operation("GET", "/jobs/summary")
    def summarize_jobs(self) -> JobSummary:
        """Counts by status, the oldest that waits, and rates."""

    @listing("/job-types", by_tenant=False)
    def list_job_types(self) -> PublishedJobType:
        """The job types that can be enqueued, with the schema of each."""

    @operation("POST", "/jobs/tick", by_tenant=False, keyed=False)
    def run_due_jobs(self, *, limit: int = ...) -> Ticked:
        """Run some due jobs inside the API's own process; for installations without a worker."""

    @listing("/effects")
    def list_effects(self, *, state: str | None = ..., provider: str | None = ..., job_id: Id | None = ...) -> Effect:
        """The calls of providers that match, newest first."""

    @operation("GET", "/effects/{effect_id}")
    def get_effect(self, effect_id: Id) -> Effect:
        """One effect, with the question that a person is asked if it is unknown."""

    @operation("POST", "/effects/{effect_id}/settle")
    def settle_effect(self, effect_id: Id, *, outcome: str, reference: str | None = ...) -> Settlement:
        """Say whether an unknown effect was made: `done`, with its reference, or `not_done`. Its job continues."""

    @method
    async def wait_for_job(self, job: Id, *, timeout: float | None = None) -> Job:
        """The job once it has ended, however it ended; NotEnded after `timeout` seconds."""
        return await until_ended(self, "job", job, JobOperations.get_job.begin, timeout)

    @method
    async def wait_for_group(self, group: Id, *, timeout: float | None = None) -> JobGroup:
        """The group once all of its jobs have ended; NotEnded after `timeout` seconds."""
        return await until_ended(self, "group", group, JobOperations.get_group.begin, timeout)

    @method
    async def wait_for_bulk_action(self, action: Id, *, timeout: float | None = None) -> BulkAction:
        """The action on many jobs once it changes nothing more; NotEnded after `timeout` seconds."""
        return await until_ended(self, "bulk action", action, JobOperations.get_bulk_action.begin, timeout)
