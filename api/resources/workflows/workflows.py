"""Routes for workflows: declared ones, which are saved here, and those in the code of workers."""

from functools import partial
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field

from atlas.api.access.roles import MANAGERS, PEOPLE, READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Document, Flag, Whole
from atlas.api.paging import IdCursor, Limit, NumberCursor, list_page, read_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_INTEGER
from atlas.engine.templates import template_names
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.dry_run import dry_run
from atlas.engine.workflows.declared.schema import document_schema
from atlas.engine.workflows.declared.store import enable_workflow, save_workflow
from atlas.engine.workflows.declared.targets import load_targets
from atlas.engine.workflows.declared.versions import get_version, list_versions, roll_back
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.errors import FieldError, NotFound
from atlas.models import Page, ProblemField
from atlas.models.workflows import Checked, DryRun, SavedWorkflow, Workflow, WorkflowSchema

_CONTENTS = attrgetter("document", "input_schema")

router = APIRouter(prefix=f"{PREFIX}/workflows", route_class=GuardedRoute, tags=["workflows"])
# Apart from the others, whose last part is a workflow's key.
schema_router = APIRouter(prefix=f"{PREFIX}/workflow-schema", route_class=GuardedRoute, tags=["workflows"])

Key = Annotated[str, Path(min_length=1, max_length=200)]
Version = Annotated[Whole, Field(ge=0, le=MAX_INTEGER)]


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


class NewVersion(WorkflowDocument):
    """A declared workflow, and which version the caller has seen last."""

    expected_version: Version | None = Field(
        default=None, description="The newest version that the caller knows, 0 for none: if another is, it is 409."
    )


class RollBack(Body):
    """The version whose document becomes the newest one again."""

    version: Version
    expected_version: Version | None = Field(
        default=None, description="The newest version that the caller knows: if another is, it is 409."
    )


class DryRunBody(WorkflowDocument):
    """A declared workflow, and an input to follow it with."""

    input: Document = Field(default_factory=dict, description="The input of the run.")
    outputs: Document = Field(default_factory=dict, description="Outputs to assume, by the ids of their steps.")


class WorkflowChange(Body):
    """Whether a workflow may start."""

    is_enabled: Flag


@router.get("", operation_id="list_workflows", summary="List the workflows, by key")
@requires(*PEOPLE)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[Workflow]:
    """Each in its newest version; those in the code of workers have version 0."""
    return await list_page(call, list_workflows, cursor, limit, contents=_CONTENTS, tenant_id=call.tenant_id)


@router.post(
    "", operation_id="save_workflow", status_code=201, summary="Save a declared workflow as its newest version"
)
@requires(*MANAGERS, helper=True, etag=True)
async def save(body: NewVersion, call: Calling, if_match: IfMatch) -> SavedWorkflow:
    """An operator who names no tenant saves it for all tenants. Runs keep the version they started with."""
    async with call.helper() as run, call.transaction() as conn:
        saved = await save_workflow(
            conn,
            body.document,
            actor=call.actor,
            tenant_id=call.tenant_id,
            if_match=if_match,
            expected_version=body.expected_version,
            run=run,
        )
    return SavedWorkflow.model_validate(call.tagged(saved))


@router.post("/check", operation_id="check_workflow", summary="Every error of a declared workflow, without saving it")
@requires(*READERS, no_key="the call changes nothing and may be repeated without one")
async def check(body: WorkflowDocument, call: Calling) -> Checked:
    """What saving would refuse, each with its place in the document."""
    async with call.helper() as run:
        problems: list[FieldError] = await run(check_document, body.document)
    return Checked(
        ok=not problems, errors=[ProblemField(field=problem.field, reason=problem.reason) for problem in problems]
    )


@router.post(
    "/dry-run", operation_id="dry_run_workflow", summary="What a run of a declared workflow would do, without doing it"
)
@requires(*READERS, no_key="the call changes nothing and may be repeated without one")
async def try_out(body: DryRunBody, call: Calling) -> DryRun:
    """Which steps would run and with which inputs. What reads outputs that are not given stays as it is written."""
    async with call.helper() as run:
        async with call.transaction(read_only=True) as conn:
            targets = await load_targets(conn, call.home, body.document)
        planned: DryRun = await run(
            dry_run, body.document, body.input, body.outputs, targets, requested_by=call.actor.id
        )
    return planned


@router.get("/{key}", operation_id="get_workflow", summary="One workflow")
@requires(*PEOPLE, etag=True)
async def show_one(key: Key, call: Calling) -> Workflow:
    """In its newest version; a tenant's own comes before one for all tenants."""
    async with call.transaction(read_only=True) as conn:
        page = await list_workflows(conn, tenant_id=call.tenant_id, key=key)
    if not page:
        raise NotFound("workflow", key)
    # A tenant's own workflow comes before one for all tenants.
    workflow = max(page, key=lambda workflow: (workflow.tenant_id is not None, workflow.version))
    return call.tagged(workflow)


@router.get(
    "/{key}/versions", operation_id="list_workflow_versions", summary="The versions of a workflow, newest first"
)
@requires(*PEOPLE)
async def show_versions(key: Key, call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[Workflow]:
    """The tenant's own, else those for all tenants. An operator who names no tenant means those for all."""
    async with call.transaction(read_only=True) as conn:
        read = partial(list_versions, conn, key, tenant_id=call.tenant_id)
        return await read_page(read, cursor, limit, key=attrgetter("version"), contents=_CONTENTS)


@router.get("/{key}/versions/{version}", operation_id="get_workflow_version", summary="One version of a workflow")
@requires(*PEOPLE)
async def show_version(key: Key, version: Annotated[int, Path(ge=0, le=MAX_INTEGER)], call: Calling) -> Workflow:
    """Runs keep the version they started with, so every version stays."""
    async with call.transaction(read_only=True) as conn:
        return await get_version(conn, key, version, tenant_id=call.tenant_id)


@router.post(
    "/{key}/rollback",
    operation_id="roll_back_workflow",
    status_code=201,
    summary="Save what an old version holds as the newest one",
)
@requires(*MANAGERS, helper=True)
async def restore(key: Key, body: RollBack, call: Calling) -> SavedWorkflow:
    """Running runs keep their version. An operator who names no tenant means the workflow for all tenants."""
    async with call.helper() as run, call.transaction() as conn:
        saved = await roll_back(
            conn,
            key,
            body.version,
            actor=call.actor,
            tenant_id=call.tenant_id,
            expected_version=body.expected_version,
            run=run,
        )
    return SavedWorkflow.model_validate(saved)


@router.patch(
    "/{key}",
    operation_id="edit_workflow",
    status_code=204,
    summary="Let a workflow start, or not; running runs continue",
)
@requires(*MANAGERS, etag=True)
async def edit(key: Key, body: WorkflowChange, call: Calling, if_match: IfMatch) -> None:
    """In all its versions. An operator who names no tenant means the one for all tenants."""
    about: dict[str, Any] = {"actor": call.actor, "tenant_id": call.tenant_id, "if_match": if_match}
    async with call.transaction() as conn:
        call.tagged(await enable_workflow(conn, key, enabled=body.is_enabled, **about))


@schema_router.get("", operation_id="get_workflow_schema", summary="The JSON Schema of declared workflows")
@requires(*PEOPLE, by_tenant=False)
async def show_schema(call: Calling) -> WorkflowSchema:
    """For editors. It is made of the models that the checker uses, which also reads the graph and the templates."""
    names = template_names()
    return WorkflowSchema(
        document_schema=document_schema(), template_filters=names["filters"], template_tests=names["tests"]
    )
