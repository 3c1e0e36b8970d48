"""Routes for command definitions: the allow-list of programs that jobs may run. Operators write it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field

from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Document, Flag, Name, Number, Text, Whole
from atlas.api.paging import Limit, NameCursor, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_RETRIES
from atlas.engine.commands.definitions import (
    Definition,
    add_definition,
    definition_key,
    disable_definition,
    edit_definition,
    find_definition,
    list_definitions,
)
from atlas.engine.commands.spec import Limits
from atlas.models import Page
from atlas.models.hosts import CommandDefinition

router = APIRouter(prefix=f"{PREFIX}/admin/jobs/definitions", route_class=GuardedRoute, tags=["definitions"])

Key = Annotated[str, Path(min_length=1, max_length=100)]


class WhenGiven(Body):
    """Arguments that are added only if the payload has a field."""

    when: Name
    args: Annotated[list[str], Field(min_length=1, max_length=50)]


Argument = str | WhenGiven
# Null removes these.
LIMITS = {"concurrency", "concurrency_key", "rate", "burst"}
Seconds = Annotated[Whole, Field(ge=1, le=7 * 86_400)]


class RetryTerms(Body):
    """Seconds to wait after a failure: base · factor^n, at most cap, plus up to a share of jitter."""

    base: Annotated[Number, Field(gt=0, le=86_400)]
    factor: Annotated[Number, Field(ge=1, le=100)] = 2
    cap: Annotated[Number, Field(gt=0, le=604_800)] = 3600
    jitter: Annotated[Number, Field(ge=0, le=1)] = 0.1


class DefinitionChange(Body):
    """What to change. `max_attempts` is `max_retries` and one."""

    description: Text | None = None
    argv: Annotated[list[Argument], Field(min_length=1, max_length=200)] | None = None
    programs: Annotated[dict[str, str], Field(max_length=20)] | None = None
    arg_schema: Document | None = None
    timeout_seconds: Seconds | None = None
    max_retries: Annotated[Whole, Field(ge=0, le=MAX_RETRIES)] | None = None
    max_attempts: Annotated[Whole, Field(ge=1, le=1001)] | None = None
    retry_policy: Literal["atlas", "capped", "agent"] | RetryTerms | None = None
    concurrency: Annotated[Whole, Field(ge=1, le=100_000)] | None = None
    concurrency_key: Annotated[str, Field(max_length=500)] | None = None
    rate: Annotated[str, Field(max_length=20)] | None = None
    burst: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    limits: Limits | None = None
    env: dict[str, str | None] | None = None
    is_active: Flag | None = None

    def described(self) -> dict[str, Any]:
        """The fields as the engine reads them; null means no change, except for limits."""
        sent = self.model_dump(exclude_unset=True)
        return {name: value for name, value in sent.items() if value is not None or name in LIMITS}


class NewDefinition(DefinitionChange):
    """A command to allow."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "key": "backup.run",
                    "argv": ["/usr/bin/pg_dump", "--dbname={{ database }}"],
                    "arg_schema": {
                        "type": "object",
                        "properties": {"database": {"type": "string", "pattern": "^[a-z]+$"}},
                        "required": ["database"],
                    },
                    "max_attempts": 3,
                }
            ]
        }
    )

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    argv: Annotated[list[Argument], Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Left out: the program of ATLAS_COMMAND_PROGRAM, the key, `--tenant-id` and the tenant's id.",
    )


@router.get("", operation_id="list_definitions", summary="List the definitions, by key")
@requires("operator", "auditor", whole=True)
async def show_list(
    call: Calling, active_only: Annotated[bool, Query()] = False, limit: Limit = 50, cursor: NameCursor = None
) -> Page[CommandDefinition]:
    """Disabled ones too, unless only active ones are asked for."""
    return await list_page(
        call,
        list_definitions,
        cursor,
        limit,
        show=_document,
        key=lambda definition: definition.spec.key,
        contents=lambda definition: (definition.spec.argv, definition.spec.arg_schema, definition.spec.env),
        active_only=active_only,
    )


@router.post("", operation_id="create_definition", status_code=201, summary="Allow a command")
@requires("operator", whole=True, etag=True)
async def create(body: NewDefinition, call: Calling) -> CommandDefinition:
    """Its key becomes a job type. The program is run with exactly these arguments, never by a shell."""
    async with call.transaction() as conn:
        program = call.api.settings.atlas_command_program
        return _document(call.tagged(await add_definition(conn, body.described(), actor=call.actor, program=program)))


@router.get("/{key}", operation_id="get_definition", summary="One definition")
@requires("operator", "auditor", whole=True, etag=True)
async def show_one(key: Key, call: Calling) -> CommandDefinition:
    """By its key, which is the job type of its jobs, or by its id."""
    async with call.transaction(read_only=True) as conn:
        return _document(call.tagged(await find_definition(conn, await definition_key(conn, key))))


@router.patch(
    "/{key}",
    operation_id="edit_definition",
    summary="Change a definition; it applies to attempts that start afterwards",
)
@requires("operator", whole=True, etag=True)
async def edit(key: Key, body: DefinitionChange, call: Calling, if_match: IfMatch) -> CommandDefinition:
    """Fields that are not sent stay as they are."""
    async with call.transaction() as conn:
        key = await definition_key(conn, key)
        changed = await edit_definition(conn, key, body.described(), actor=call.actor, if_match=if_match)
    return _document(call.tagged(changed))


@router.delete(
    "/{key}",
    operation_id="disable_definition",
    summary="Disable a definition: none of its jobs is enqueued or started any more",
)
@requires("operator", whole=True, etag=True)
async def disable(key: Key, call: Calling, if_match: IfMatch) -> CommandDefinition:
    """Running jobs go on. `PATCH` with `is_active` allows it again."""
    async with call.transaction() as conn:
        key = await definition_key(conn, key)
        return _document(call.tagged(await disable_definition(conn, key, actor=call.actor, if_match=if_match)))


def _document(definition: Definition) -> CommandDefinition:
    return CommandDefinition(**definition.as_json(), max_attempts=definition.spec.max_retries + 1)
