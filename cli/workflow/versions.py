"""`atlas workflow versions`, `diff` and `rollback`: what a declared workflow was before."""

import difflib
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.client_lists import all_of, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.engine.workflows.declared.document import Document
from atlas.errors import FieldError, InvalidInput
from atlas.models.workflows import Workflow

if TYPE_CHECKING:
    from atlas.client import AtlasClient

Key = Annotated[str, typer.Argument(help="The workflow's key.")]
Owner = Annotated[
    str | None, typer.Option("--tenant", help="The tenant that owns it, by slug or id; without it, every tenant.")
]


def versions(key: Key, tenant: Owner = None, json: Json = False) -> None:
    """List the versions of a workflow, newest first."""
    listed, names = with_names(lambda atlas: all_of(atlas.list_workflow_versions(key)), tenant=tenant)
    rows = [
        (row.version or "in code", _steps(row), row.created_by, format_age(row.created_at), row.description[:60])
        for row in listed
    ]
    documents = [names.document(row) for row in listed]
    say({"versions": documents}, table(("VERSION", "STEPS", "BY", "AGE", "DESCRIPTION"), rows), json=json)


def diff(
    key: Key,
    old: Annotated[
        int | None,
        typer.Argument(metavar="[OLD]", min=1, help="The older version; by default the one before the newest."),
    ] = None,
    new: Annotated[
        int | None, typer.Argument(metavar="[NEW]", min=1, help="The newer version; by default the newest.")
    ] = None,
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Show what differs between two versions of a declared workflow, line by line."""

    async def work(atlas: "AtlasClient") -> tuple[Workflow, Workflow]:
        [newest] = (await atlas.list_workflow_versions(key).page(limit=1)).items
        first, last = _chosen(old, new, newest.version)
        return await atlas.get_workflow_version(key, first), await atlas.get_workflow_version(key, last)

    before, after = on_atlas(work, tenant=tenant)
    old_name, new_name = (f"{key} version {version.version}" for version in (before, after))
    lines = [*difflib.unified_diff(_lines(before), _lines(after), old_name, new_name, lineterm="")]
    text = "\n".join(lines) or f"Versions {before.version} and {after.version} of {key} are the same."
    say({"key": key, "old": before.version, "new": after.version, "lines": lines}, text, json=json)


def rollback(
    key: Key,
    version: Annotated[int, typer.Argument(min=1, help="The version to go back to.")],
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Save the content of an old version as the newest one. Runs keep the version they started with."""
    saved = on_atlas(lambda atlas: atlas.roll_back_workflow(key, version=version), tenant=tenant)
    text = f"Saved version {saved.version} of {key}, with the document of version {version}."
    say(
        saved,
        text if saved.is_new else f"Version {saved.version} of {key} is already the newest, with the same document.",
        json=json,
    )


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
