"""Runs the checks of the machine, then those of the database, and prints them."""

from collections.abc import Sequence

import asyncpg
import typer
from rich.text import Text

from atlas.cli.doctor.checkpoints import check_checkpoints
from atlas.cli.doctor.database import check_database
from atlas.cli.doctor.finding import Diagnosis
from atlas.cli.doctor.forwarders import check_forwarders
from atlas.cli.doctor.machine import check_machine
from atlas.cli.runtime import STATEMENT_SECONDS, execute, reach_database
from atlas.cli.terminal.output import Json, say
from atlas.db.pool import connect
from atlas.errors import AtlasError
from atlas.postgres.cluster import has_embedded
from atlas.settings import Settings
from atlas.source import name_command

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(json: Json = False) -> None:
    """Check this machine and the database, or the API, and say how to correct what is wrong."""
    findings = execute(_examine)
    healthy = all(finding.verdict != "fail" for finding in findings)
    say({"ok": healthy, "checks": findings}, _text(findings), json=json)
    if not healthy:
        raise typer.Exit(1)


async def _examine(settings: Settings) -> list[Diagnosis]:
    findings = check_machine(settings)
    if settings.atlas_url is not None and settings.database_url is None:
        return findings + await _examine_api(settings)
    if settings.embedded and not has_embedded(settings.home):
        return [
            *findings,
            Diagnosis("database", "ok", "the embedded Postgres does not exist yet; the first start creates it"),
        ]
    try:
        return findings + await _examine_database(settings)
    except AtlasError as error:
        return [*findings, Diagnosis("database", "fail", error.message, error.remedy)]
    except TimeoutError:
        silent = f"it is connected and has not responded for {STATEMENT_SECONDS:.0f} s"
        return [*findings, Diagnosis("database", "fail", silent, "Check the server and its disk.")]
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return [
            *findings,
            Diagnosis("database", "fail", f"{error}", "Allow Atlas's login to read the system catalogs."),
        ]


async def _examine_api(settings: Settings) -> list[Diagnosis]:
    from atlas.cli.connection.over_http import reach_api

    try:
        async with reach_api(settings) as atlas:
            session = await atlas.get_session()
            detail = f"{settings.atlas_url} responds, to {session.subject} with the role {session.role}"
            sees_all = session.tenant is None and session.role in ("operator", "auditor")
            findings = [finding async for finding in atlas.list_findings()] if sees_all else []
    except AtlasError as error:
        return [Diagnosis("api", "fail", error.message, error.remedy)]
    return [Diagnosis("api", "ok", detail), *(Diagnosis(finding.kind, "warn", finding.message) for finding in findings)]


async def _examine_database(settings: Settings) -> list[Diagnosis]:
    async with reach_database(settings) as addresses:
        conn = await connect(addresses.url, application="atlas doctor", statement_seconds=STATEMENT_SECONDS)
        try:
            log = [*await check_checkpoints(conn, settings), *await check_forwarders(conn)]
            return [*await check_database(conn, addresses.url), *log]
        finally:
            await conn.close()


def _text(findings: Sequence[Diagnosis]) -> Text:
    width = max(len(finding.check) for finding in findings)
    text = Text()
    for finding in findings:
        text.append(f"{finding.verdict:<5}", style=_STYLES[finding.verdict])
        text.append(f"{finding.check:<{width}}  {finding.found}\n")
        if finding.remedy:
            text.append(f"{'':<{width + 5}}  → {name_command(finding.remedy)}\n")
    text.rstrip()
    return text
