"""Routes for workflows: declared ones, which are saved here, and those in the code of workers."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import ConfigDict

from atlas.api.etags import IfMatch
from atlas.api.models.common import Body, Document, Flag
from atlas.api.paging import IdCursor, Limit, read_page
from atlas.api.request_context import Calling
from atlas.api.roles import MANAGERS, PEOPLE, READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models import Page, ProblemField
from atlas.client.models.workflows import Checked, SavedWorkflow, WorkflowShown
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.store import enable_workflow, list_workflows, save_workflow
from atlas.errors import FieldError, NotFound

router = APIRouter(prefix=f"{PREFIX}/workflows", route_class=GuardedRoute, tags=["workflows"])

Key = Annotated[str, Path(min_length=1, max_length=200)]


class WorkflowDocument(Body):
    """A declared workflow: steps that depend on each other. Saving checks all of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "document": {
                        "key": "welcome",
                        "steps": [{"id": "mail", "job": "EMAIL_SEND", "with": {"to": "{{ input.to }}"}}],
                    }
                }
            ]
        }
    )

    document: Document


class WorkflowChange(Body):
    """Whether a workflow may start."""

    is_enabled: Flag


@router.get("", operation_id="list_workflows", summary="List the workflows, by key")
@requires(*PEOPLE)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[WorkflowShown]:
    """Each in its newest version; those in the code of workers have version 0."""
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda after, limit: list_workflows(conn, tenant_id=call.tenant_id, after=after, limit=limit),
            WorkflowShown.model_validate,
            after=cursor,
            limit=limit,
            contents=lambda one: (one.document, one.input_schema),
        )


@router.post(
    "", operation_id="save_workflow", status_code=201, summary="Save a declared workflow as its newest version"
)
@requires(*MANAGERS, helper=True, etag=True)
async def save(body: WorkflowDocument, call: Calling, response: Response, if_match: IfMatch) -> SavedWorkflow:
    """An operator who names no tenant saves it for all tenants. Runs keep the version they started with."""
    async with call.helper() as run, call.transaction() as conn:
        saved = await save_workflow(
            conn, body.document, actor=call.actor, tenant_id=call.tenant_id, if_match=if_match, run=run
        )
    response.headers["ETag"] = saved.etag
    return SavedWorkflow.model_validate(saved)


@router.post("/check", operation_id="check_workflow", summary="Every error of a declared workflow, without saving it")
@requires(*READERS, no_key="the call changes nothing and may be repeated without one")
async def check(body: WorkflowDocument, call: Calling) -> Checked:
    """What saving would refuse, each with its place in the document."""
    async with call.helper() as run:
        found: list[FieldError] = await run(check_document, body.document)
    return Checked(ok=not found, errors=[ProblemField(field=one.field, reason=one.reason) for one in found])


@router.get("/{key}", operation_id="get_workflow", summary="One workflow")
@requires(*PEOPLE, etag=True)
async def show_one(key: Key, call: Calling, response: Response) -> WorkflowShown:
    """In its newest version; a tenant's own comes before one for all tenants."""
    async with call.transaction(read_only=True) as conn:
        found = await list_workflows(conn, tenant_id=call.tenant_id, key=key)
    if not found:
        raise NotFound("workflow", key)
    # A tenant's own workflow comes before one for all tenants.
    workflow = max(found, key=lambda one: (one.tenant_id is not None, one.version))
    response.headers["ETag"] = workflow.etag
    return WorkflowShown.model_validate(workflow)


@router.patch(
    "/{key}",
    operation_id="edit_workflow",
    status_code=204,
    summary="Let a workflow start, or not; running runs continue",
)
@requires(*MANAGERS, etag=True)
async def edit(key: Key, body: WorkflowChange, call: Calling, response: Response, if_match: IfMatch) -> None:
    """In all its versions. An operator who names no tenant means the one for all tenants."""
    about: dict[str, Any] = {"actor": call.actor, "tenant_id": call.tenant_id, "if_match": if_match}
    async with call.transaction() as conn:
        response.headers["ETag"] = await enable_workflow(conn, key, enabled=body.is_enabled, **about)
