"""`atlas workflow check`, `save`, `enable` and `disable`: the workflows themselves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.client_lists import all_of, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import read_json_file
from atlas.engine.workflows.declared.check import check_document
from atlas.errors import InvalidInput
from atlas.models.workflows import Workflow

if TYPE_CHECKING:
    from atlas.client import AtlasClient

Owner = Annotated[
    str | None, typer.Option("--tenant", help="The tenant that owns it, by slug or id; without it, every tenant.")
]


def check(
    workflow: Annotated[str, typer.Argument(help="A workflow's key, or a JSON file with a declared one.")],
    tenant: Annotated[
        str | None,
        typer.Option(help="The tenant whose policy applies, by slug or id; the token's, or system, if not given."),
    ] = None,
    spend_cents: Annotated[int, typer.Option(min=0, help="What it would cost.")] = 0,
    json: Json = False,
) -> None:
    """Check a declared workflow's document, or show the policy's verdict, without starting anything."""
    if workflow.endswith(".json"):
        document = read_json_file(Path(workflow))
        errors = check_document(document)
        if errors:
            raise InvalidInput(workflow, errors)
        say({"file": workflow, "valid": True}, f"{workflow} is valid.", json=json)
        return
    verdict = on_atlas(lambda atlas: atlas.check_policy(workflow, spend_cents=spend_cents), tenant=tenant)
    text = f"{verdict.effect}: {verdict.reason}"
    if not verdict.is_known:
        text += f"\nNo worker and no saved document is known for {workflow!r}; a run of it would fail."
    say({"known": verdict.is_known, **verdict.model_dump(exclude={"is_known"})}, text, json=json)


def save(
    file: Annotated[Path, typer.Argument(help="A JSON file with a declared workflow.")],
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Save a declared workflow as its newest version."""
    document: Any = read_json_file(file)
    saved = on_atlas(lambda atlas: atlas.save_workflow(document), tenant=tenant)
    text = f"Saved {saved.key} as" if saved.is_new else f"{saved.key} is already saved as"
    say(saved, f"{text} version {saved.version}.", json=json)


def enable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Let a workflow start again."""
    _enable(key, tenant, enabled=True, json=json)


def disable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Disable a workflow: no new runs start, and runs that have started continue."""
    _enable(key, tenant, enabled=False, json=json)


def _enable(key: str, tenant: str | None, *, enabled: bool, json: bool) -> None:
    async def work(atlas: "AtlasClient") -> None:
        await atlas.edit_workflow(key, is_enabled=enabled)

    on_atlas(work, tenant=tenant)
    say({"key": key, "enabled": enabled}, f"{key} is {'enabled' if enabled else 'disabled'}.", json=json)


def show_workflows(tenant: str | None, *, json: bool) -> None:
    """Print the workflows there are."""
    workflows, names = with_names(lambda atlas: all_of(atlas.list_workflows()), tenant=tenant)
    rows = [
        (
            workflow.key,
            names.slug(workflow.tenant_id) or "all",
            _kind(workflow),
            _switch(workflow),
            workflow.description[:60],
        )
        for workflow in workflows
    ]
    documents = [names.document(workflow) for workflow in workflows]
    say({"workflows": documents}, table(("KEY", "TENANT", "KIND", "", "DESCRIPTION"), rows), json=json)


def _kind(workflow: Workflow) -> str:
    return "in code" if workflow.kind == "code" else f"version {workflow.version}"


def _switch(workflow: Workflow) -> str:
    return "" if workflow.is_enabled else "disabled"
