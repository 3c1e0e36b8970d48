"""`atlas tenant`: the customers of this installation."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.access.tenant_move import export_tenant, import_tenant
from atlas.cli.connection.client_lists import all_of
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, dump_json, say, table
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.errors import FieldError, InvalidInput, Refused
from atlas.models.tenants import Tenant

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="The tenants of this installation.", no_args_is_help=True, add_completion=False)
app.command("export")(export_tenant)
app.command("import")(import_tenant)

SlugOrId = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by slug or id.")]


@app.command("add")
def add(
    slug: Annotated[str, typer.Argument(help="Its short name: lower-case letters, digits and hyphens.")],
    name: Annotated[str | None, typer.Option(help="Its display name; the slug if not given.")] = None,
    timezone: Annotated[str, typer.Option(help="The time zone of its schedules.")] = "UTC",
    json: Json = False,
) -> None:
    """Add a tenant."""
    tenant = on_atlas(lambda atlas: atlas.create_tenant(slug, name or slug, timezone=timezone))
    say(tenant, f"Tenant {tenant.slug} added.", json=json)


@app.command("list")
def show(json: Json = False) -> None:
    """List the tenants."""
    tenants = on_atlas(lambda atlas: all_of(atlas.list_tenants()))
    rows = [(tenant.slug, tenant.name, tenant.timezone, tenant.id, tenant.removing_at) for tenant in tenants]
    say({"tenants": tenants}, table(("SLUG", "NAME", "TIMEZONE", "ID", "REMOVING SINCE"), rows), json=json)


@app.command("show")
def show_one(tenant: SlugOrId, json: Json = False) -> None:
    """Show one tenant with its limits and retention."""
    _print(on_atlas(lambda atlas: atlas.get_tenant(tenant)), json=json)


@app.command("edit")
def edit(
    tenant: SlugOrId,
    name: Annotated[str | None, typer.Option(help="Its display name.")] = None,
    timezone: Annotated[str | None, typer.Option(help="The time zone of its schedules.")] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar=OBJECT,
            help="All its limits: in_flight, rate, burst, weight, requests_per_second, email, quotas; {} removes them.",
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(metavar=OBJECT, help="Days to keep jobs, attempts, events, steps, recurring; null is for ever."),
    ] = None,
    json: Json = False,
) -> None:
    """Change a tenant. Options that are not given change nothing."""
    texts = {"name": name, "timezone": timezone}
    objects = {"limits": limits, "retention": retention}
    changes: dict[str, Any] = {key: text for key, text in texts.items() if text is not None}
    changes |= {key: read_object(f"--{key}", text) for key, text in objects.items() if text is not None}
    if not changes:
        reason = "give what to change: --name, --timezone, --limits or --retention"
        raise InvalidInput("The command", [FieldError("tenant", reason)])
    _print(on_atlas(lambda atlas: atlas.edit_tenant(tenant, **changes)), json=json)


@app.command("remove")
def remove(
    tenant: SlugOrId,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel its queued and running jobs; otherwise they prevent the removal.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why, for everyone who reads the audit log.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove a tenant and everything that belongs to it. Its rows of the audit log stay.

    If it is interrupted, run it again, or let a scheduler continue.
    """

    async def work(atlas: "AtlasClient") -> tuple[Tenant, dict[str, int]]:
        current = await atlas.get_tenant(tenant)
        if not yes:
            _confirm(current)
        return current, await _remove(atlas, current, cancel=cancel, reason=reason, json=json)

    removed, rows = on_atlas(work)
    listed = ", ".join(f"{count:,} {name}" for name, count in rows.items()) or "nothing else"
    message = f"Tenant {removed.slug} removed, along with {listed}."
    say({"id": removed.id, "slug": removed.slug, "rows": rows}, message, json=json)


def _confirm(tenant: Tenant) -> None:
    if not sys.stdin.isatty():
        raise Refused(f"Tenant {tenant.slug} would be removed for good.", remedy="Confirm it with --yes.")
    if not typer.confirm(f"Remove the tenant {tenant.slug} and everything that belongs to it, for good?", err=True):
        raise Refused(f"Tenant {tenant.slug} was not removed.", remedy="Nothing was changed.")


async def _remove(
    atlas: "AtlasClient", tenant: Tenant, *, cancel: bool, reason: str | None, json: bool
) -> dict[str, int]:
    """Carry out a removal, show its steps on stderr if it is a terminal, and return the rows of each kind."""
    # Imported here: other commands draw no progress.
    from rich.console import Console

    console = Console(stderr=True, quiet=json or not sys.stderr.isatty())
    with console.status(f"Removing {tenant.slug}") as status:
        # One call carries out some seconds of it.
        while True:
            removal = await atlas.remove_tenant(str(tenant.id), cancel=cancel, reason=reason)
            if removal.is_removed:
                return removal.rows
            status.update(f"Removing {tenant.slug}: {removal.last_step}; {sum(removal.rows.values()):,} rows so far")


def _print(tenant: Tenant, *, json: bool) -> None:
    rows = [
        ("slug", tenant.slug),
        ("name", tenant.name),
        ("timezone", tenant.timezone),
        ("limits", dump_json(tenant.limits)),
        ("retention", dump_json(tenant.retention)),
        ("added", tenant.created_at),
        ("removing since", tenant.removing_at),
        ("moving since", tenant.moving_at),
        ("moving to", tenant.moving_to),
        ("id", tenant.id),
    ]
    say(tenant, table(("FIELD", "VALUE"), rows), json=json)
