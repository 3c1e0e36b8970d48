"""The gate, the state of the installation, usage, and the audit log."""

# mypy: disable-error-code="empty-body"

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from atlas.client.methods import listing, method, operation, stream
from atlas.client.route import ApiCaller, Id
from atlas.client.waiting import until_ended
from atlas.models.access import AccessReport
from atlas.models.audit import (
    AuditCheckpoint,
    AuditEntry,
    AuditSeal,
    AuditStatus,
    AuditVerification,
    EntryDetails,
    NewEntries,
)
from atlas.models.base import Document
from atlas.models.effect_reports import EffectReport
from atlas.models.explain import WorkerExplanation
from atlas.models.insights import Insights, StepTimes
from atlas.models.outbox import MailDetails, MailRoute, OutboxMail
from atlas.models.overview import Overview, Series, TenantActivity
from atlas.models.system import (
    Alert,
    Gate,
    MatchingIds,
    Pause,
    SystemStatus,
    Usage,
    WorkerDetails,
    WorkerStatus,
)


class InsightChoice(TypedDict, total=False):
    """Which time and which jobs insights are about, in which steps and groups."""

    start: datetime | None
    end: datetime | None
    step: str | None
    job_type: str | None
    by: str


class SystemOperations(ApiCaller):
    """Switch the gate, look at the installation, read and verify the audit log."""

    @operation("GET", "/ids")
    def find_ids(self, kind: str, prefix: str) -> MatchingIds:
        """The ids of a kind (`job`, `run`, `trigger` … or `any`) that begin with four or more digits."""

    @operation("GET", "/system/atlas-online", by_tenant=False)
    def get_gate(self) -> Gate:
        """Whether Atlas starts work, and who decided that."""

    @operation("PUT", "/system/atlas-online", by_tenant=False)
    def switch_gate(
        self, online: bool, *, reason: str | None = ..., for_seconds: float | None = ..., if_match: str = ...
    ) -> Gate:
        """Let work start, or nothing; with `for_seconds`, for so long. When it returns, nothing starts any more."""

    @operation("PUT", "/system/engine-enabled", by_tenant=False)
    def switch_engine(self, enabled: bool, *, reason: str | None = ..., if_match: str = ...) -> Gate:
        """Let requests for workflows become runs, or wait; runs that have begun go on."""

    @listing("/pauses")
    def list_pauses(self) -> Pause:
        """What is paused, oldest first."""

    @operation("PUT", "/pauses")
    def pause(
        self,
        kind: str,
        target: str,
        *,
        reason: str | None = ...,
        for_seconds: float | None = ...,
        if_match: str = ...,
    ) -> Pause:
        """Pause a tenant, type, definition, workflow, host or trigger. When it returns, nothing of it starts."""

    @operation("DELETE", "/pauses/{pause_id}")
    def resume(self, pause_id: Id, *, if_match: str = ...) -> None:
        """End a pause: what it held starts again, in its order."""

    @operation("GET", "/system/status", by_tenant=False)
    def get_status(self) -> SystemStatus:
        """The gate, the queue and the live workers; for tokens that belong to no tenant."""

    @operation("GET", "/overview")
    def get_overview(self) -> Overview:
        """What to look at first: counts, workers, the busiest types, the latest failures, what needs attention."""

    @listing("/overview/tenants", by_tenant=False)
    def list_tenant_activity(self) -> TenantActivity:
        """Tenants side by side, those with the most active jobs first."""

    @operation("GET", "/jobs/series")
    def list_job_series(
        self,
        *,
        step: str = ...,
        start: datetime | None = ...,
        end: datetime | None = ...,
        job_type: str | None = ...,
        by_type: bool = ...,
        with_points: bool = ...,
    ) -> Series:
        """What happened to jobs in each minute, hour or day."""

    @operation("GET", "/insights")
    def get_insights(self, **choice: Unpack[InsightChoice]) -> Insights:
        """Usage, outcomes, times and cost over hours and days, by job type or tenant."""

    @operation("GET", "/insights/steps")
    def get_step_times(
        self,
        *,
        start: datetime | None = ...,
        end: datetime | None = ...,
        workflow: str | None = ...,
        job_type: str | None = ...,
    ) -> StepTimes:
        """The steps of workflows that took the most time, of one workflow, or that ran jobs of one type."""

    @stream("/insights/export")
    def export_insights(self, **choice: Unpack[InsightChoice]) -> bytes:
        """The same as CSV, for each step."""

    @listing("/system/findings", by_tenant=False)
    def list_findings(self) -> Alert:
        """What a person should look at: silent workers, stuck requests, rising failures."""

    @listing("/system/effect-reports", by_tenant=False)
    def list_effect_reports(self) -> EffectReport:
        """The last reconciliation of the effect ledger with each provider, by provider."""

    @listing("/workers", by_tenant=False)
    def list_workers(self, *, alive_only: bool = ...) -> WorkerStatus:
        """The worker processes, newest first; for tokens that belong to no tenant."""

    @operation("GET", "/workers/{worker_id}", by_tenant=False)
    def get_worker(self, worker_id: str) -> WorkerDetails:
        """One worker process and its jobs."""

    @operation("GET", "/workers/{worker_id}/explain", by_tenant=False)
    def explain_worker(self, worker_id: str) -> WorkerExplanation:
        """Why a worker takes nothing, or what it does."""

    @operation("POST", "/workers/{worker_id}/drain", by_tenant=False)
    def drain_worker(self, worker_id: str) -> WorkerDetails:
        """Let a worker finish what it runs, and stop."""

    @listing("/outbox")
    def list_mails(self) -> OutboxMail:
        """The mails in the outbox, newest first."""

    @operation("GET", "/outbox/route")
    def get_mail_route(self) -> MailRoute:
        """How mails leave: as files, or by which providers."""

    @operation("GET", "/outbox/{job_id}")
    def get_mail(self, job_id: Id) -> MailDetails:
        """One mail in the outbox."""

    @stream("/outbox/{job_id}/source")
    def download_mail(self, job_id: Id) -> bytes:
        """A mail as a file, for any mail program."""

    @listing("/usage")
    def list_usage(self, *, start: datetime | None = ..., end: datetime | None = ..., by_hour: bool = ...) -> Usage:
        """Time and cost of finished attempts, by tenant and job type."""

    @listing("/audit")
    def list_audit_rows(
        self,
        *,
        actor_id: str | None = ...,
        action: Sequence[str] | None = ...,
        level: Sequence[str] | None = ...,
        actor_type: str | None = ...,
        entity_type: str | None = ...,
        entity_id: str | None = ...,
        since: datetime | None = ...,
        until: datetime | None = ...,
        text: str | None = ...,
    ) -> AuditEntry:
        """What happened, newest first."""

    @operation("GET", "/audit/new")
    def list_new_audit_rows(
        self,
        *,
        place: str | None = ...,
        actor_id: str | None = ...,
        action: Sequence[str] | None = ...,
        level: Sequence[str] | None = ...,
        actor_type: str | None = ...,
        entity_type: str | None = ...,
        entity_id: str | None = ...,
        text: str | None = ...,
    ) -> NewEntries:
        """What was recorded since the place of the response before, each row once."""

    @operation("GET", "/audit/status")
    def get_audit_status(self) -> AuditStatus:
        """How far the audit log is sealed, signed and verified."""

    @operation("GET", "/audit/{row_id}")
    def get_audit_row(self, row_id: int) -> EntryDetails:
        """One row of the audit log, with its seal and its place in the tree."""

    @operation("GET", "/audit/{row_id}/proof")
    def get_audit_proof(self, row_id: int) -> Document:
        """A proof that one row is in the signed tree, for anyone with the public key."""

    @operation("GET", "/audit/key", by_tenant=False)
    def get_audit_key(self) -> str:
        """The public keys that verify checkpoints, one per line, the newest first."""

    @stream("/audit/export")
    def export_audit_log(
        self, *, since: datetime | None = ..., until: datetime | None = ..., personal: bool = ...
    ) -> bytes:
        """The audit log, or a tenant's part of it, as lines that `atlas audit verify --export` checks."""

    @listing("/audit/seals")
    def list_seals(self) -> AuditSeal:
        """The seals, newest first; of a tenant, those that hold rows of its own."""

    @listing("/audit/checkpoints", by_tenant=False)
    def list_checkpoints(self) -> AuditCheckpoint:
        """The signed checkpoints, newest first."""

    @operation("GET", "/audit/reports/access")
    def report_access(self, *, month: str) -> AccessReport:
        """Who could do what in a month such as 2026-11, who did, and which credentials no one used."""

    @stream("/audit/reports/access/export")
    def export_access_report(self, *, month: str) -> bytes:
        """The same as CSV: a row for each credential, then for each action of each actor."""

    @operation("POST", "/audit/verifications", keyed=False)
    def start_verification(self) -> AuditVerification:
        """Verify the audit log, or a tenant's part, in the background; `wait_for_verification` waits for the result."""

    @listing("/audit/verifications")
    def list_verifications(self) -> AuditVerification:
        """The last verifications, newest first."""

    @operation("GET", "/audit/verifications/{verification_id}")
    def get_verification(self, verification_id: Id) -> AuditVerification:
        """The progress of a verification, and what it found."""

    @method
    async def wait_for_verification(self, verification: Id, *, timeout: float | None = None) -> AuditVerification:
        """The verification once it is over; NotEnded after `timeout` seconds."""
        return await until_ended(self, "verification", verification, SystemOperations.get_verification.begin, timeout)
