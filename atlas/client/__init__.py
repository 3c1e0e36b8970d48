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
    from atlas.models.approvals import ApprovalShown, ApprovalSummary, Decided, RuleAdded, RuleShown
    from atlas.models.audit import (
        AuditStatus,
        CheckpointShown,
        EntryDetails,
        EntryShown,
        NewEntries,
        SealShown,
        VerificationResult,
        VerificationShown,
    )
    from atlas.models.base import Listed, Page, ProblemField
    from atlas.models.explain import (
        ExplanationShown,
        JobExplanation,
        RunExplanation,
        TriggerExplanation,
        WorkerExplanation,
    )
    from atlas.models.grants import EnqueueGrant, GrantList
    from atlas.models.hosts import CommandLimits, DefinitionShown, Host, ServerInstance
    from atlas.models.insights import GroupShown, InsightsShown
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
        RetriedMany,
        Ticked,
    )
    from atlas.models.outbox import AttachmentShown, MailDetails, MailHeader, MailShown
    from atlas.models.overview import (
        FailedJob,
        FlowShown,
        NeedShown,
        OverviewShown,
        PointShown,
        SealStatusShown,
        SeriesShown,
        TenantActivityShown,
        TypeActivityShown,
        TypeSeriesShown,
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
        OpenSession,
        SessionShown,
        Tenant,
        TenantRemoval,
        Token,
    )
    from atlas.models.triggers import (
        Fire,
        Fired,
        Occurrence,
        RecurringFunction,
        RecurringRunShown,
        TriggerShown,
    )
    from atlas.models.webhooks import CreatedInboundHook, CreatedWebhook, InboundHook, TestDelivery, Webhook
    from atlas.models.workflows import (
        Checked,
        EventPublished,
        EventRecord,
        Intent,
        RunId,
        SavedWorkflow,
        Signaled,
        StepShown,
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
    "ApprovalShown",
    "ApprovalSummary",
    "AsyncPages",
    "AtlasClient",
    "AttachmentShown",
    "Attempt",
    "AuditStatus",
    "Canceled",
    "Checked",
    "CheckpointShown",
    "CommandLimits",
    "CreatedInboundHook",
    "CreatedToken",
    "CreatedWebhook",
    "Decided",
    "DefinitionShown",
    "EngineStatus",
    "EnqueueGrant",
    "EnqueuedJob",
    "EntryDetails",
    "EntryShown",
    "Event",
    "EventPublished",
    "EventRecord",
    "Events",
    "ExplanationShown",
    "FailedJob",
    "Fire",
    "Fired",
    "FlowShown",
    "Frame",
    "Gate",
    "GateEvent",
    "GrantList",
    "GroupShown",
    "Hello",
    "Host",
    "InboundHook",
    "InsightsShown",
    "Intent",
    "Job",
    "JobEvent",
    "JobExplanation",
    "JobRequest",
    "JobStatus",
    "JobSummary",
    "Listed",
    "MailDetails",
    "MailHeader",
    "MailShown",
    "NeedShown",
    "NewEntries",
    "NotEnded",
    "Occurrence",
    "OpenSession",
    "OverviewShown",
    "Page",
    "Pages",
    "Pause",
    "PointShown",
    "ProblemField",
    "ProgramStatus",
    "PublishedJobType",
    "QueueDepth",
    "RecurringFunction",
    "RecurringRunShown",
    "Refetch",
    "Retried",
    "RetriedMany",
    "RetryBudget",
    "RuleAdded",
    "RuleShown",
    "RunEvent",
    "RunExplanation",
    "RunId",
    "RunNotStarted",
    "SavedWorkflow",
    "SealShown",
    "SealStatusShown",
    "SeriesShown",
    "ServerInstance",
    "SessionShown",
    "Signaled",
    "StepShown",
    "Stopped",
    "SyncAtlasClient",
    "SystemStatus",
    "Tenant",
    "TenantActivityShown",
    "TenantRemoval",
    "TestDelivery",
    "Ticked",
    "Token",
    "TriggerEvent",
    "TriggerExplanation",
    "TriggerShown",
    "TypeActivityShown",
    "TypeSeriesShown",
    "Unavailable",
    "Unreachable",
    "Usage",
    "VerificationResult",
    "VerificationShown",
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
            found = vars(import_module(module)).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module 'atlas.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
