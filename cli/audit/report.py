"""`atlas audit report access`: the access review of a month."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.audit.verifier.format import counted
from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.audit.export import Tenant
from atlas.cli.connection.over_http_rows import with_names
from atlas.cli.terminal.output import Json, say, table
from atlas.engine.access.access_report import report_csv
from atlas.models.access import AccessCredential, AccessReport

if TYPE_CHECKING:
    from atlas.cli.terminal.output import Shown

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
    """Who could do what in a month, who did, and which credentials nobody used."""
    if csv and json:
        raise typer.BadParameter("is one form, --json another", param_hint="--csv")
    chosen = month or f"{datetime.now(UTC):%Y-%m}"
    report, names = with_names(lambda atlas: atlas.report_access(month=chosen), tenant=tenant)
    if csv:
        sys.stdout.write(report_csv(report))
        return
    say(report.model_dump(), _text(report, names), json=json)


def _text(report: AccessReport, names: TenantNames) -> "list[Shown]":
    dormant = [one for one in report.credentials if one.is_dormant]
    people = {one.actor_id for one in report.activity if one.actor_type != "system"}
    about = f"{counted(len(report.credentials), 'credential')}, {len(dormant)} dormant"
    acted = counted(len(people), "person or program", "people and programs")
    headline = f"Access in {report.month} (UTC): {about}; {acted} acted."
    credentials = [
        (
            one.kind,
            one.subject,
            one.role,
            names.slug(one.tenant_id),
            one.scope,
            one.ends_at,
            one.last_used_at,
            _flag(one),
        )
        for one in report.credentials
    ]
    activity = [
        (one.actor_id, names.slug(one.tenant_id), one.action, one.count, one.last_at) for one in report.activity
    ]
    columns = ("KIND", "SUBJECT", "ROLE", "TENANT", "SCOPE", "ENDS", "LAST USED", "")
    return [headline, table(columns, credentials), table(("WHO", "TENANT", "ACTION", "COUNT", "LAST"), activity)]


def _flag(credential: AccessCredential) -> str | None:
    return "dormant" if credential.is_dormant else None
