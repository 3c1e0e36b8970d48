"""`atlas audit tail` and `atlas audit export`."""

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from atlas.audit.export import Extract, export
from atlas.audit.find import AuditRow, LogPosition, Query, find, follow, log_position
from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.audit.keys import seal_and_warn
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import find_entity_over_http, tenant_names
from atlas.cli.runtime import Atlas, caller, open_atlas
from atlas.cli.terminal.ids import find_entity
from atlas.cli.terminal.output import Json, dump_json, say
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.cli.terminal.stdio import discard_stdout, written_out
from atlas.db.pool import Connection
from atlas.db.replica import caught_up
from atlas.errors import SettingsError
from atlas.settings import Settings

if TYPE_CHECKING:
    from rich.text import Text

    from atlas.client import AtlasClient

FOLLOW_EVERY = timedelta(seconds=0.5)

Tenant = Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help=f"From this time on, {AGO}.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")]


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Which events to show, how many of them first, and whether to go on with new ones."""

    query: Query
    tenant: str | None
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
        str | None, typer.Option(help="Only events of what has this id, or key, or the only id that begins so.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Only events that contain this text.")] = None,
    since: Since = None,
    json: Json = False,
) -> None:
    """Show the newest events, the last one at the bottom. With --follow and --json, one JSON document a line."""
    query = Query(
        actor_id=actor,
        actions=tuple(action) if action else None,
        entity_id=entity,
        since=_since(since),
        text=text,
        actor_type="user" if people else None,
    )

    options = TailOptions(query, tenant, lines, is_followed=follow_on, json=json)
    try:
        entries, names = either(partial(_tail, options), partial(_tail_over_http, options), tenant=tenant)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not follow_on:
        text_lines = "" if json else _lines(entries)
        say({"events": [_document(entry, names) for entry in entries]}, text_lines, json=json)


async def _tail(options: TailOptions, settings: Settings) -> tuple[list[AuditRow], TenantNames]:
    query, lines = options.query, options.lines
    async with open_atlas(settings) as atlas:
        async with atlas.pool.acquire() as conn:
            query = await _for_tenant(conn, query, options.tenant)
            if query.entity_id is not None:
                query = replace(query, entity_id=await find_entity(conn, query.entity_id))
            since = await log_position(conn)
            page = await find(conn, query, limit=max(lines, 1))
            newest = list(reversed(page.entries))[-lines:] if lines else []
            names = await names_of(conn, newest)
        if options.is_followed:
            await _follow(atlas, query, newest, since, json=options.json)
        return newest, names


async def _tail_over_http(options: TailOptions, atlas: "AtlasClient") -> tuple[list[AuditRow], TenantNames]:
    from atlas.cli.audit import over_http as log

    query = options.query
    if query.entity_id is not None:
        query = replace(query, entity_id=await find_entity_over_http(atlas, query.entity_id))
    place = await log.place(atlas) if options.is_followed else None
    newest, names = await log.newest(atlas, query, options.lines), await tenant_names(atlas)
    if place is not None:
        for entry in newest:
            _print(entry, names, json=options.json)
        printed = {entry.id for entry in newest}
        async for entry in log.follow(atlas, query, place):
            if entry.id not in printed:
                _print(entry, names, json=options.json)
    return newest, names


def export_log(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; stdout if not given.")] = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    personal: Annotated[
        bool, typer.Option("--personal", help="Include the personal values that were not erased.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the audit log to a file that `atlas audit verify --export` checks without a database."""
    if json and out is None:
        raise typer.BadParameter("is needed with --json: stdout carries the document", param_hint="--out")
    period = _since(since), _until(until)

    async def work(settings: Settings) -> "Exported":
        async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
            await seal_and_warn(atlas)
            extract = Extract(await tenant_id(conn, tenant), *period, personal)
            lines = export(conn, extract, actor=caller(), reading=partial(caught_up, settings))
            async with _target(out) as file, aclosing(lines):
                return await _write(lines, file)

    async def over_http(atlas: "AtlasClient") -> "Exported":
        lines = atlas.export_audit_log(since=period[0], until=period[1], personal=personal)
        async with _target(out) as file:
            return await _write(lines, file)

    done = either(work, over_http, tenant=tenant)
    if out is not None:
        message = f"{done.bytes / 2**20:.1f} MiB in {done.lines} lines were written to {out}."
        say({"file": str(out), "lines": done.lines, "bytes": done.bytes}, message, json=json)


@dataclass(slots=True)
class Exported:
    """How much was written."""

    lines: int = 0
    bytes: int = 0


async def _write(lines: AsyncIterator[bytes], file: BinaryIO) -> Exported:
    done = Exported()
    async for piece in lines:
        try:
            file.write(piece)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(error) from error
        done.lines += piece.count(b"\n")
        done.bytes += len(piece)
    return done


@asynccontextmanager
async def _target(out: Path | None) -> AsyncIterator[BinaryIO]:
    """Standard output, or a file that gets its name only when it is complete.

    A path that exists and is not a regular file (a pipe, a device, a link) is written to and never replaced.
    """
    if out is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The reader closed the pipe. There is no one to report an error to.
            discard_stdout()
            raise typer.Exit(1) from None
        return
    if _is_special(out):
        try:
            with _opened(out) as file:
                yield file
        except BrokenPipeError:
            raise typer.Exit(1) from None
        return
    scratch = out.with_name(f".{out.name}.part")
    try:
        with _opened(scratch) as file:
            yield file
        scratch.replace(out)
    finally:
        scratch.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not path.is_file())


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> SettingsError:
    return SettingsError(f"The export cannot be written: {error}.", remedy="Name another file with --out.")


async def _for_tenant(conn: Connection, query: Query, tenant: str | None) -> Query:
    return query if tenant is None else replace(query, tenant_id=await tenant_id(conn, tenant))


async def _follow(atlas: Atlas, query: Query, newest: list[AuditRow], since: LogPosition, *, json: bool) -> None:
    for entry in newest:
        await _show(atlas, entry, json=json)
    printed = {entry.id for entry in newest}
    async for entry in follow(atlas.pool, query, since=since, every=FOLLOW_EVERY):
        if entry.id not in printed:
            await _show(atlas, entry, json=json)


async def _show(atlas: Atlas, entry: AuditRow, *, json: bool) -> None:
    async with atlas.pool.acquire() as conn:
        names = await names_of(conn, [entry] if json else [])
    _print(entry, names, json=json)


def _print(entry: AuditRow, names: TenantNames, *, json: bool) -> None:
    if json:
        with written_out():
            sys.stdout.write(dump_json(_document(entry, names)) + "\n")
    else:
        say(None, _lines([entry]), json=False)


def _document(entry: AuditRow, names: TenantNames) -> dict[str, Any]:
    """A row without the transaction that wrote it, which only the order of the rows needs."""
    return {name: value for name, value in names.document(entry).items() if name not in ("epoch", "xid")}


def _lines(entries: list[AuditRow]) -> "Text":
    # Imported here: --json needs none of it.
    from rich.text import Text

    return Text("\n").join(_line(entry, Text()) for entry in entries)


def _line(entry: AuditRow, line: "Text") -> "Text":
    styles = {"warn": "yellow", "error": "red"}
    line.append(f"{entry.created_at:%Y-%m-%d %H:%M:%S.%f} ", style="dim")
    line.append(f"{entry.id:>8} ", style="dim")
    line.append(f"{entry.action:<24}", style=styles.get(entry.level, "bold"))
    line.append(f" {entry.entity_type} {entry.entity_id} by {entry.actor_id}")
    if entry.message:
        line.append(f": {entry.message}")
    return line


def _since(since: str | None) -> datetime | None:
    return None if since is None else read_time("--since", since)


def _until(until: str | None) -> datetime | None:
    return None if until is None else read_time("--until", until)
