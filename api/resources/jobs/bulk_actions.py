"""Routes for actions on many jobs: preview one, begin it, see how far it is, stop it."""

from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from fastapi import APIRouter
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.models.common import Body, Id, Number, Whole
from atlas.api.models.job_filter import JobFilterBody
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.jobs.actions.bulk_actions import (
    MAX_REASON_LENGTH,
    begin_bulk_action,
    cancel_bulk_action,
    find_bulk_action,
    list_bulk_actions,
)
from atlas.engine.jobs.actions.bulk_previews import MAX_IDS, MAX_PREVIEWED, bulk_filter, is_cause, preview_bulk_action
from atlas.engine.jobs.lists.counts import update_counts
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.models import Page
from atlas.models.jobs import BulkAction, BulkActionPreview, BulkVerb

router = APIRouter(prefix=f"{PREFIX}/jobs/bulk", route_class=GuardedRoute, tags=["jobs"])


def _show_selections(schema: dict[str, Any], model: type["_Selection"]) -> None:
    schema["oneOf"] = [{"required": [name]} for name in model.SELECTIONS]


class _Selection(Body):
    """What to do with which jobs."""

    # What names the jobs: exactly one of these is sent.
    SELECTIONS: ClassVar[tuple[str, ...]] = ("ids", "filter")
    model_config = ConfigDict(json_schema_extra=_show_selections)

    action: BulkVerb
    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_IDS)] = Field(default_factory=list)
    filter: JobFilterBody = Field(default_factory=JobFilterBody)

    @model_validator(mode="after")
    def _names_one_selection(self) -> Self:
        if len(set(self.SELECTIONS) & self.model_fields_set) != 1:
            raise ValueError(f"give one of {', '.join(self.SELECTIONS[:-1])} and {self.SELECTIONS[-1]}")
        return self

    def selected(self, tenant_id: UUID | None) -> JobFilter | list[UUID]:
        """The jobs that are named by their ids, or the filter of the engine's verbs."""
        return self.filter.to_filter(tenant_id) if "filter" in self.model_fields_set else self.ids


class NewBulkPreview(_Selection):
    """What would be done with which jobs: those with these `ids`, or that pass a `filter`."""

    limit: Annotated[Whole, Field(ge=1, le=MAX_PREVIEWED)] | None = None


class NewBulkAction(_Selection):
    """What to do with which jobs: those with these `ids`, of a preview by its `digest`, or that pass a `filter`."""

    SELECTIONS = ("ids", "filter", "digest")

    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = None
    rate_per_second: Annotated[Number, Field(ge=0.01, le=1000)] | None = None
    reason: Annotated[str, StringConstraints(max_length=MAX_REASON_LENGTH)] = ""


@router.post(
    "/preview",
    operation_id="preview_bulk_action",
    summary="Count the jobs that an action would change, by their ids or by a filter, and keep them for it",
)
@requires(*MANAGERS)
async def preview(body: NewBulkPreview, call: Calling) -> BulkActionPreview:
    """`POST /jobs/bulk` with the `digest` changes these jobs and no others.

    The set holds up to `limit` jobs, the newest that it would change, and at most 100,000. By `ids`, `refused` says
    which of them would be left unchanged. It is kept for a day, as long as it is one of the newest 50 of the tenant.
    """
    selected = body.selected(call.tenant_id)
    write = call.summary_transactions()[2]
    if isinstance(selected, JobFilter) and is_cause(selected) and write is not None:
        await update_counts(write)
    async with call.transaction() as conn:
        stored = await preview_bulk_action(
            conn,
            body.action,
            selected,
            actor=call.actor,
            tenant_id=call.tenant_id,
            limit=body.limit or MAX_PREVIEWED,
        )
    values = {name: getattr(stored, name) for name in BulkActionPreview.model_fields if name != "filter"}
    return BulkActionPreview(**values, filter=None if stored.filter is None else bulk_filter(stored.filter))


@router.post(
    "",
    operation_id="begin_bulk_action",
    status_code=201,
    summary="Retry, cancel, delete or discard many jobs: by their ids, a preview or a filter",
)
@requires(*MANAGERS)
async def begin(body: NewBulkAction, call: Calling) -> BulkAction:
    """The first 200 jobs are changed immediately; a scheduler changes the rest, at `rate_per_second` if it is given.

    A job that cannot be changed does not stop the others: `verdicts` counts what became of them. A job of a preview
    that changed since then is `already_changed`; `arrived` counts jobs that match only now, which are left alone. By a
    filter, jobs that were created or ended later are not touched, and a job whose outcome is unknown is not retried.
    Every change is in the audit log with the reason.
    """
    async with call.transaction() as conn:
        return await begin_bulk_action(
            conn,
            body.action,
            actor=call.actor,
            ids=body.ids,
            job_filter=body.filter.to_filter(call.tenant_id) if "filter" in body.model_fields_set else None,
            digest=body.digest,
            tenant_id=call.tenant_id,
            rate_per_second=body.rate_per_second,
            reason=body.reason.strip(),
        )


@router.get("", operation_id="list_bulk_actions", summary="List the actions on many jobs, newest first")
@requires(*READERS, replica=True)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[BulkAction]:
    """Those that ended are kept for ninety days."""
    return await list_page(call, list_bulk_actions, cursor, limit, tenant_id=call.tenant_id)


@router.get("/{bulk_id:uuid}", operation_id="get_bulk_action", summary="How far an action on many jobs is")
@requires(*READERS)
async def show_one(bulk_id: Id, call: Calling) -> BulkAction:
    """`running` until nothing is left."""
    async with call.transaction(read_only=True) as conn:
        return await find_bulk_action(conn, bulk_id, tenant_id=call.tenant_id)


@router.post("/{bulk_id:uuid}/cancel", operation_id="cancel_bulk_action", summary="Stop an action on many jobs")
@requires(*MANAGERS)
async def cancel(bulk_id: Id, call: Calling) -> BulkAction:
    """What it has done stays done. 409 if it has ended."""
    async with call.transaction() as conn:
        return await cancel_bulk_action(conn, bulk_id, actor=call.actor, tenant_id=call.tenant_id)
