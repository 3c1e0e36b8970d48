"""A typed HTTP client for Atlas: calls that are retried when a connection is lost, and a live view that reconnects.

Each name is loaded when it is first used, so that the API can share the models without loading an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlas.client.client import AtlasClient, SyncAtlasClient
    from atlas.client.errors import (
        ApiConflict,
        ApiError,
        ApiForbidden,
        ApiInvalidInput,
        ApiLeaseLost,
        ApiNotFound,
        ApiRefused,
        ApiTooManyRequests,
        ApiUnauthenticated,
        Unavailable,
        Unreachable,
    )
    from atlas.client.frames import Event, Events, Frame, GateEvent, Hello, JobEvent, Refetch, RunEvent, TriggerEvent
    from atlas.client.methods import AsyncPages, Pages
    from atlas.client.request import RetryBudget
    from atlas.client.waiting import NotEnded, RunNotStarted
    from atlas.models.access import AccessActivity, AccessCredential, AccessReport
    from atlas.models.approvals import Approval, ApprovalSummary, Decided, PolicyRule, RuleAdded
    from atlas.models.audit import (
        AuditCheckpoint,
        AuditEntry,
        AuditSeal,
        AuditStatus,
        AuditVerification,
        EntryDetails,
        NewEntries,
        SealStatus,
        VerificationResult,
    )
    from atlas.models.base import Listed, Page, ProblemField
    from atlas.models.effect_reports import EffectDifference, EffectReport
    from atlas.models.effects import Effect, Settlement
    from atlas.models.explain import (
        Explanation,
        JobExplanation,
        RunExplanation,
        TriggerExplanation,
        WorkerExplanation,
    )
    from atlas.models.grants import EnqueueGrant, GrantList
    from atlas.models.hosts import CommandDefinition, CommandLimits, Host, ServerInstance
    from atlas.models.insights import Insights, InsightsGroup
    from atlas.models.jobs import (
        Attempt,
        Canceled,
        EnqueuedJob,
        Job,
        JobRequest,
        JobStatus,
        JobSummary,
        PublishedJobType,
        Retried,
        Ticked,
    )
    from atlas.models.outbox import MailAttachment, MailDetails, MailHeader, OutboxMail
    from atlas.models.overview import (
        FailedJob,
        Flow,
        Need,
        Overview,
        Point,
        Series,
        TenantActivity,
        TypeActivity,
        TypeSeries,
    )
    from atlas.models.system import (
        Alert,
        EngineStatus,
        Gate,
        Pause,
        ProgramStatus,
        QueueDepth,
        SystemStatus,
        Usage,
        VersionStatus,
        WorkerDetails,
        WorkerJob,
        WorkerStatus,
    )
    from atlas.models.tenants import (
        CreatedToken,
        CurrentSession,
        OpenSession,
        Tenant,
        TenantRemoval,
        Token,
    )
    from atlas.models.triggers import (
        Fire,
        Fired,
        Occurrence,
        RecurringFunction,
        RecurringRun,
        Trigger,
    )
    from atlas.models.webhooks import CreatedInboundHook, CreatedWebhook, InboundHook, TestDelivery, Webhook
    from atlas.models.workflows import (
        Checked,
        EventPublished,
        EventRecord,
        Intent,
        RunId,
        RunStep,
        SavedWorkflow,
        Signaled,
        Stopped,
        Workflow,
        WorkflowRun,
    )

__all__ = [
    "AccessActivity",
    "AccessCredential",
    "AccessReport",
    "Alert",
    "ApiConflict",
    "ApiError",
    "ApiForbidden",
    "ApiInvalidInput",
    "ApiLeaseLost",
    "ApiNotFound",
    "ApiRefused",
    "ApiTooManyRequests",
    "ApiUnauthenticated",
    "Approval",
    "ApprovalSummary",
    "AsyncPages",
    "AtlasClient",
    "Attempt",
    "AuditCheckpoint",
    "AuditEntry",
    "AuditSeal",
    "AuditStatus",
    "AuditVerification",
    "Canceled",
    "Checked",
    "CommandDefinition",
    "CommandLimits",
    "CreatedInboundHook",
    "CreatedToken",
    "CreatedWebhook",
    "CurrentSession",
    "Decided",
    "Effect",
    "EffectDifference",
    "EffectReport",
    "EngineStatus",
    "EnqueueGrant",
    "EnqueuedJob",
    "EntryDetails",
    "Event",
    "EventPublished",
    "EventRecord",
    "Events",
    "Explanation",
    "FailedJob",
    "Fire",
    "Fired",
    "Flow",
    "Frame",
    "Gate",
    "GateEvent",
    "GrantList",
    "Hello",
    "Host",
    "InboundHook",
    "Insights",
    "InsightsGroup",
    "Intent",
    "Job",
    "JobEvent",
    "JobExplanation",
    "JobRequest",
    "JobStatus",
    "JobSummary",
    "Listed",
    "MailAttachment",
    "MailDetails",
    "MailHeader",
    "Need",
    "NewEntries",
    "NotEnded",
    "Occurrence",
    "OpenSession",
    "OutboxMail",
    "Overview",
    "Page",
    "Pages",
    "Pause",
    "Point",
    "PolicyRule",
    "ProblemField",
    "ProgramStatus",
    "PublishedJobType",
    "QueueDepth",
    "RecurringFunction",
    "RecurringRun",
    "Refetch",
    "Retried",
    "RetryBudget",
    "RuleAdded",
    "RunEvent",
    "RunExplanation",
    "RunId",
    "RunNotStarted",
    "RunStep",
    "SavedWorkflow",
    "SealStatus",
    "Series",
    "ServerInstance",
    "Settlement",
    "Signaled",
    "Stopped",
    "SyncAtlasClient",
    "SystemStatus",
    "Tenant",
    "TenantActivity",
    "TenantRemoval",
    "TestDelivery",
    "Ticked",
    "Token",
    "Trigger",
    "TriggerEvent",
    "TriggerExplanation",
    "TypeActivity",
    "TypeSeries",
    "Unavailable",
    "Unreachable",
    "Usage",
    "VerificationResult",
    "VersionStatus",
    "Webhook",
    "WorkerDetails",
    "WorkerExplanation",
    "WorkerJob",
    "WorkerStatus",
    "Workflow",
    "WorkflowRun",
]

_MODULES = (
    "atlas.client.client",
    "atlas.client.errors",
    "atlas.client.frames",
    "atlas.client.methods",
    "atlas.models.access",
    "atlas.models.approvals",
    "atlas.models.audit",
    "atlas.models.base",
    "atlas.models.effect_reports",
    "atlas.models.effects",
    "atlas.models.explain",
    "atlas.models.grants",
    "atlas.models.hosts",
    "atlas.models.insights",
    "atlas.models.jobs",
    "atlas.models.outbox",
    "atlas.models.overview",
    "atlas.models.system",
    "atlas.models.tenants",
    "atlas.models.triggers",
    "atlas.models.webhooks",
    "atlas.models.workflows",
    "atlas.client.transport",
    "atlas.client.waiting",
)


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name in __all__:
        for module in _MODULES:
            value = vars(import_module(module)).get(name)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module 'atlas.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
