"""`atlas audit tail`: the newest events, and those that arrive."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.bounds import MAX_PAGE_SIZE
from atlas.cli.connection.client_lists import resolve_entity, tenant_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, dump_json, say, warn
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.cli.terminal.stdio import written_out
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from rich.text import Text

    from atlas.cli.access.tenant_names import TenantNames
    from atlas.client import AtlasClient, AuditEntry

FOLLOW_SECONDS = 0.5

Tenant = Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help=f"From this time on, {AGO}.")]


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Which events to show, how many of them first, and whether to go on with new ones."""

    filters: dict[str, Any]
    since: datetime | None
    lines: int
    is_followed: bool
    json: bool


def tail(
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new events.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=1000, help="How many events to show first.")] = 20,
    tenant: Tenant = None,
    actor: Annotated[str | None, typer.Option(help="Only events of this actor.")] = None,
    people: Annotated[bool, typer.Option("--people", help="Only what people did.")] = False,
    action: Annotated[list[str] | None, typer.Option(help="Only this action; may be repeated.")] = None,
    entity: Annotated[
        str | None, typer.Option(help="Only events about the entity with this id or key, or the beginning of its id.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Only events that contain this text.")] = None,
    since: Since = None,
    json: Json = False,
) -> None:
    """Show the newest events, the last one at the bottom. With --follow and --json, one JSON document a line."""
    filters = {
        "actor_id": actor,
        "action": action or None,
        "entity_id": entity,
        "text": text,
        "actor_type": "user" if people else None,
    }
    since_at = None if since is None else read_time("--since", since)
    options = TailOptions(filters, since_at, lines, is_followed=follow_on, json=json)
    try:
        entries, names = on_atlas(partial(_tail, options), tenant=tenant)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not follow_on:
        text_lines = "" if json else _lines(entries)
        say({"events": [names.document(entry) for entry in entries]}, text_lines, json=json)


async def _tail(options: TailOptions, atlas: "AtlasClient") -> "tuple[list[AuditEntry], TenantNames]":
    if options.filters["entity_id"] is not None:
        options.filters["entity_id"] = await resolve_entity(atlas, options.filters["entity_id"])
    place = (await atlas.list_new_audit_rows()).place if options.is_followed else None
    newest, names = await _newest(atlas, options), await tenant_names(atlas)
    if place is not None:
        await _follow(atlas, options, newest, names, place)
    return newest, names


async def _newest(atlas: "AtlasClient", options: TailOptions) -> "list[AuditEntry]":
    """The newest events, the last one at the end."""
    entries: list[AuditEntry] = []
    listing = atlas.list_audit_rows(**options.filters, since=options.since)
    async for page in listing.pages(limit=min(max(options.lines, 1), MAX_PAGE_SIZE)):
        entries += page.items
        if len(entries) >= options.lines:
            break
    return list(reversed(entries[: options.lines]))


async def _follow(
    atlas: "AtlasClient", options: TailOptions, newest: "list[AuditEntry]", names: "TenantNames", place: str
) -> None:
    """Show the newest events, and then each one that arrives after a place."""
    for entry in newest:
        _print(entry, names, json=options.json)
    printed = {entry.id for entry in newest}
    while True:
        arrived = await atlas.list_new_audit_rows(**options.filters, place=place)
        if arrived.is_cut:
            warn(
                AtlasError("Some events are not shown: too many were recorded at once.", remedy="Read them without -f.")
            )
        new = [entry for entry in arrived.items if entry.id not in printed]
        if any(entry.tenant_id and names.slug(entry.tenant_id) == str(entry.tenant_id) for entry in new):
            names = await tenant_names(atlas)
        for entry in new:
            _print(entry, names, json=options.json)
        place = arrived.place
        await asyncio.sleep(FOLLOW_SECONDS)


def _print(entry: "AuditEntry", names: "TenantNames", *, json: bool) -> None:
    if json:
        with written_out():
            sys.stdout.write(dump_json(names.document(entry)) + "\n")
    else:
        say(None, _lines([entry]), json=False)


def _lines(entries: "list[AuditEntry]") -> "Text":
    # Imported here: --json needs none of it.
    from rich.text import Text

    return Text("\n").join(_line(entry, Text()) for entry in entries)


def _line(entry: "AuditEntry", line: "Text") -> "Text":
    styles = {"warn": "yellow", "error": "red"}
    line.append(f"{entry.created_at:%Y-%m-%d %H:%M:%S.%f} ", style="dim")
    line.append(f"{entry.id:>8} ", style="dim")
    line.append(f"{entry.action:<24}", style=styles.get(entry.level, "bold"))
    line.append(f" {entry.entity_type} {entry.entity_id} by {entry.actor_id}")
    if entry.message:
        line.append(f": {entry.message}")
    return line
