"""`atlas workflow versions`, `diff` and `rollback`: what a declared workflow was before."""

import difflib
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import row_of, rows_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.output import Json, say, shown_age, table
from atlas.engine.workflows.declared.document import Document
from atlas.engine.workflows.declared.store import Saved
from atlas.engine.workflows.declared.versions import get_version, list_versions, roll_back
from atlas.errors import FieldError, InvalidInput
from atlas.models.workflows import Workflow
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

Key = Annotated[str, typer.Argument(help="The workflow's key.")]
Owner = Annotated[
    str | None, typer.Option("--tenant", help="The tenant whose it is, by slug or id; without it, every tenant's.")
]


def versions(key: Key, tenant: Owner = None, json: Json = False) -> None:
    """List the versions of a workflow, newest first."""

    async def work(settings: Settings) -> tuple[list[Workflow], TenantNames]:
        async with connected(settings) as conn:
            found = await list_versions(conn, key, tenant_id=await tenant_id(conn, tenant))
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Workflow], TenantNames]:
        return await rows_of(Workflow, atlas.list_workflow_versions(key)), await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [
        (one.version or "in code", _steps(one), one.created_by, shown_age(one.created_at), one.description[:60])
        for one in found
    ]
    documents = [names.document(one) for one in found]
    say({"versions": documents}, table(("VERSION", "STEPS", "BY", "AGE", "DESCRIPTION"), rows), json=json)


def diff(
    key: Key,
    old: Annotated[int | None, typer.Argument(metavar="[OLD]", min=1, help="The one before the newest.")] = None,
    new: Annotated[int | None, typer.Argument(metavar="[NEW]", min=1, help="The newest.")] = None,
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Show what differs between two versions of a declared workflow, line by line."""

    async def work(settings: Settings) -> tuple[Workflow, Workflow]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            first, last = _chosen(old, new, (await list_versions(conn, key, tenant_id=owner, limit=1))[0].version)
            before = await get_version(conn, key, first, tenant_id=owner)
            return before, await get_version(conn, key, last, tenant_id=owner)

    async def over_http(atlas: "AtlasClient") -> tuple[Workflow, Workflow]:
        [newest] = (await atlas.list_workflow_versions(key).page(limit=1)).items
        first, last = _chosen(old, new, newest.version)
        before = row_of(Workflow, await atlas.get_workflow_version(key, first))
        return before, row_of(Workflow, await atlas.get_workflow_version(key, last))

    before, after = either(work, over_http, tenant=tenant)
    old_name, new_name = (f"{key} version {one.version}" for one in (before, after))
    lines = [*difflib.unified_diff(_lines(before), _lines(after), old_name, new_name, lineterm="")]
    text = "\n".join(lines) or f"Versions {before.version} and {after.version} of {key} are the same."
    say({"key": key, "old": before.version, "new": after.version, "lines": lines}, text, json=json)


def rollback(
    key: Key,
    version: Annotated[int, typer.Argument(min=1, help="The version that shall hold again.")],
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Save what an old version holds as the newest one. Runs keep the version they started with."""

    async def work(settings: Settings) -> Saved:
        async with connected(settings, checks_inputs=True) as conn:
            return await roll_back(conn, key, version, actor=caller(), tenant_id=await tenant_id(conn, tenant))

    async def over_http(atlas: "AtlasClient") -> Saved:
        return row_of(Saved, await atlas.roll_back_workflow(key, version=version), etag="")

    saved = either(work, over_http, tenant=tenant)
    text = f"{key} is what version {version} was: version {saved.version}."
    say(saved, text if saved.is_new else f"Version {saved.version} of {key} is the newest, and the same.", json=json)


def _chosen(old: int | None, new: int | None, newest: int) -> tuple[int, int]:
    """The two versions that are compared: those that were named, else the newest and the one before it."""
    last = newest if new is None else new
    first = last - 1 if old is None else old
    if first < 1:
        raise InvalidInput("The command", [FieldError("OLD", "there is no version before the newest one")])
    return first, last


def _lines(row: Workflow) -> list[str]:
    """The document with its fields in the order in which people write them."""
    if row.document is None:
        return []
    return (
        Document.model_validate(row.document).model_dump_json(by_alias=True, exclude_unset=True, indent=2).split("\n")
    )


def _steps(row: Workflow) -> int | None:
    return None if row.document is None else len(row.document["steps"])
