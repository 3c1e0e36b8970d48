"""`atlas workflow check`, `save`, `enable` and `disable`: the workflows themselves."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import row_of, rows_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import read_json_file
from atlas.engine.policy.judge import Verdict, check_policy
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.store import Saved, enable_workflow, list_workflows, save_workflow
from atlas.engine.workflows.registry import near
from atlas.errors import InvalidInput, NotFound
from atlas.models.workflows import Workflow
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

Owner = Annotated[
    str | None, typer.Option("--tenant", help="The tenant that owns it, by slug or id; without it, every tenant.")
]


def check(
    workflow: Annotated[str, typer.Argument(help="A workflow's key, or a JSON file with a declared one.")],
    tenant: Annotated[
        str | None,
        typer.Option(help="For whom policy is asked, by slug or id; of the token, or system, if not given."),
    ] = None,
    spend_cents: Annotated[int, typer.Option(min=0, help="What it would cost.")] = 0,
    json: Json = False,
) -> None:
    """Check a declared workflow's document, or ask policy what it would say, without starting anything."""
    if workflow.endswith(".json"):
        document = read_json_file(Path(workflow))
        errors = check_document(document)
        if errors:
            raise InvalidInput(workflow, errors)
        say({"file": workflow, "valid": True}, f"{workflow} is fit to be saved.", json=json)
        return

    async def work(settings: Settings) -> tuple[Verdict, bool]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant or "system")
            known = {one.key for one in await list_workflows(conn, tenant_id=owner)}
            return await check_policy(conn, owner, workflow, spend_cents=spend_cents), workflow in known

    async def over_http(atlas: "AtlasClient") -> tuple[Verdict, bool]:
        found = await atlas.check_policy(workflow, spend_cents=spend_cents)
        return row_of(Verdict, found), found.is_known

    verdict, is_known = either(work, over_http, tenant=tenant)
    text = f"{verdict.effect}: {verdict.reason}"
    if not is_known:
        text += f"\nNo worker and no saved document is known for {workflow!r}; a run of it would fail."
    say({"workflow": workflow, "known": is_known, **asdict(verdict)}, text, json=json)


def save(
    file: Annotated[Path, typer.Argument(help="A JSON file with a declared workflow.")],
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Save a declared workflow as its newest version."""
    document: Any = read_json_file(file)

    async def work(settings: Settings) -> Saved:
        async with connected(settings, checks_inputs=True) as conn:
            return await save_workflow(conn, document, actor=caller(), tenant_id=await tenant_id(conn, tenant))

    async def over_http(atlas: "AtlasClient") -> Saved:
        return row_of(Saved, await atlas.save_workflow(document), etag="")

    saved = either(work, over_http, tenant=tenant)
    effect = "is saved" if saved.is_new else "was saved before"
    say(saved, f"{saved.key} {effect}: version {saved.version}.", json=json)


def enable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Let a workflow start again."""
    _enable(key, tenant, enabled=True, json=json)


def disable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Let a workflow start no more; what runs goes on."""
    _enable(key, tenant, enabled=False, json=json)


def _enable(key: str, tenant: str | None, *, enabled: bool, json: bool) -> None:
    async def work(settings: Settings) -> None:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            known = [one.key for one in await list_workflows(conn, tenant_id=owner)]
            if key not in known:
                like = near(key, known)
                remedy = f"Near it: {', '.join(like)}." if like else "`atlas workflow list --workflows` shows them."
                raise NotFound("workflow", key, remedy=remedy)
            await enable_workflow(conn, key, enabled=enabled, actor=caller(), tenant_id=owner)

    async def over_http(atlas: "AtlasClient") -> None:
        await atlas.edit_workflow(key, is_enabled=enabled)

    either(work, over_http, tenant=tenant)
    say({"key": key, "enabled": enabled}, f"{key} is {'enabled' if enabled else 'disabled'}.", json=json)


def show_workflows(tenant: str | None, *, json: bool) -> None:
    """Print the workflows there are."""

    async def work(settings: Settings) -> tuple[list[Workflow], TenantNames]:
        async with connected(settings) as conn:
            found = await list_workflows(conn, tenant_id=await tenant_id(conn, tenant))
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Workflow], TenantNames]:
        return await rows_of(Workflow, atlas.list_workflows()), await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [
        (one.key, names.slug(one.tenant_id) or "all", _kind(one), _switch(one), one.description[:60]) for one in found
    ]
    documents = [names.document(one) for one in found]
    say({"workflows": documents}, table(("KEY", "TENANT", "KIND", "", "DESCRIPTION"), rows), json=json)


def _kind(workflow: Workflow) -> str:
    return "in code" if workflow.kind == "code" else f"version {workflow.version}"


def _switch(workflow: Workflow) -> str:
    return "" if workflow.is_enabled else "disabled"
