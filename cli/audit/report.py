"""`atlas audit report access`: the access review of a month."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.audit.verifier.format import counted
from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.audit.export import Tenant
from atlas.cli.connection.client_lists import with_names
from atlas.cli.terminal.output import Json, say, table
from atlas.engine.access.access_report import report_csv
from atlas.models.access import AccessCredential, AccessReport

if TYPE_CHECKING:
    from atlas.cli.terminal.output import Printable

app = typer.Typer(help="Reports for reviews.", no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """Reports for reviews."""


@app.command("access")
def access(
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The month, in UTC; this one if not given.")
    ] = None,
    tenant: Tenant = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a row for each credential and each action.")] = False,
    json: Json = False,
) -> None:
    """Who could do what in a month, who did, and which credentials no one used."""
    if csv and json:
        raise typer.BadParameter("cannot be combined with --json", param_hint="--csv")
    chosen = month or f"{datetime.now(UTC):%Y-%m}"
    report, names = with_names(lambda atlas: atlas.report_access(month=chosen), tenant=tenant)
    if csv:
        sys.stdout.write(report_csv(report))
        return
    say(report.model_dump(), _text(report, names), json=json)


def _text(report: AccessReport, names: TenantNames) -> "list[Printable]":
    dormant = [credential for credential in report.credentials if credential.is_dormant]
    people = {entry.actor_id for entry in report.activity if entry.actor_type != "system"}
    about = f"{counted(len(report.credentials), 'credential')}, {len(dormant)} dormant"
    acted = counted(len(people), "person or program", "people and programs")
    headline = f"Access in {report.month} (UTC): {about}; {acted} acted."
    credentials = [
        (
            credential.kind,
            credential.subject,
            credential.role,
            names.slug(credential.tenant_id),
            credential.scope,
            credential.ends_at,
            credential.last_used_at,
            _flag(credential),
        )
        for credential in report.credentials
    ]
    activity = [
        (entry.actor_id, names.slug(entry.tenant_id), entry.action, entry.count, entry.last_at)
        for entry in report.activity
    ]
    columns = ("KIND", "SUBJECT", "ROLE", "TENANT", "SCOPE", "ENDS", "LAST USED", "")
    return [headline, table(columns, credentials), table(("WHO", "TENANT", "ACTION", "COUNT", "LAST"), activity)]


def _flag(credential: AccessCredential) -> str | None:
    return "dormant" if credential.is_dormant else None
