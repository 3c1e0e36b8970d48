"""`atlas trigger list`, `atlas trigger show` and `atlas trigger preview`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import find_id_over_http, own_tenant, tenant_names
from atlas.cli.runtime import connected
from atlas.cli.terminal.facts import facts_table
from atlas.cli.terminal.ids import find_id
from atlas.cli.terminal.output import Json, say, table
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.triggers.cron import Cron, read_cron
from atlas.engine.triggers.find import CLOCK, cron_of, find_trigger, list_triggers
from atlas.engine.triggers.preview import preview
from atlas.models.triggers import Occurrence, Trigger
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Trigger

TriggerId = Annotated[str, typer.Argument(metavar="ID", help="The trigger's id, or its beginning.")]
CronExpr = Annotated[str | None, typer.Option("--cron", help="Five fields, or a name such as @hourly.")]
Zone = Annotated[str | None, typer.Option("--timezone", help="Its time zone; the tenant's by default.")]
NO_TRIGGERS = "There are no triggers. Add one with `atlas trigger add`; `atlas trigger add --help` shows how."


def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")] = None, json: Json = False
) -> None:
    """List the triggers."""

    async def work(settings: Settings) -> tuple[list[Trigger], TenantNames]:
        async with connected(settings) as conn:
            found = await _all(conn, await tenant_id(conn, tenant))
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Trigger], TenantNames]:
        return [trigger async for trigger in atlas.list_triggers()], await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    columns = ("ID", "TENANT", "LABEL", "WHEN", "STARTS", "NEXT", "LAST", "STATE")
    rows = [_row(one, names) for one in found]
    say(
        {"triggers": [names.document(trigger) for trigger in found]},
        table(columns, rows) if rows else NO_TRIGGERS,
        json=json,
    )


def show_one(trigger_id: TriggerId, json: Json = False) -> None:
    """Show a trigger: when it fires, what it starts with which input, and how its last firing went."""

    async def work(settings: Settings) -> tuple[Trigger, TenantNames]:
        async with connected(settings) as conn:
            found = await find_trigger(conn, await find_id(conn, "trigger", trigger_id))
            return found, await names_of(conn, [found])

    async def over_http(atlas: "AtlasClient") -> tuple[Trigger, TenantNames]:
        found = await atlas.get_trigger(await find_id_over_http(atlas, "trigger", trigger_id))
        return found, await tenant_names(atlas)

    found, names = either(work, over_http)
    document = names.document(found)
    say(document, facts_table(document), json=json)


def show_times(
    trigger_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A trigger's id, or its beginning; or give --cron.")
    ] = None,
    cron: CronExpr = None,
    timezone: Zone = None,
    tenant: Annotated[
        str | None,
        typer.Option(help="The tenant whose time zone --cron uses, by slug or id; that of the token, or system."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=500)] = 20,
    json: Json = False,
) -> None:
    """Show the next due times of a schedule, and how clock changes affect them."""
    if (trigger_id is None) == (cron is None):
        raise typer.BadParameter("give a trigger's id, or an expression with --cron")

    async def work(settings: Settings) -> tuple[Cron, list[Occurrence]]:
        async with connected(settings) as conn:
            schedule, owner = await _schedule(conn, trigger_id, cron, timezone, tenant or "system")
            row = await fetch_row(conn, CLOCK, tenant_id=owner)
            assert row is not None
            return schedule, preview(schedule, row["now"], count=count)

    async def over_http(atlas: "AtlasClient") -> tuple[Cron, list[Occurrence]]:
        if trigger_id is not None:
            id = await find_id_over_http(atlas, "trigger", trigger_id)
            schedule = _cron(await atlas.get_trigger(id))
            times = await atlas.preview_trigger(id, count=count)
        else:
            schedule = read_cron(cron or "", timezone or (await own_tenant(atlas, tenant)).timezone)
            times = await atlas.preview_schedule(cron or "", timezone=schedule.zone.key, count=count)
        return schedule, times.items

    schedule, times = either(work, over_http, tenant=tenant)
    document = {"cron": schedule.fields, "timezone": schedule.zone.key, "times": times}
    rows = [
        (f"{datetime.fromisoformat(one.local):%a %Y-%m-%d %H:%M %z}", f"{one.utc:%Y-%m-%d %H:%M}", one.note)
        for one in times
    ]
    say(document, table((schedule.zone.key, "UTC", ""), rows), json=json)


async def _schedule(
    conn: Connection, trigger_id: str | None, cron: str | None, timezone: str | None, tenant: str
) -> tuple[Cron, UUID]:
    if trigger_id is not None:
        trigger = await find_trigger(conn, await find_id(conn, "trigger", trigger_id))
        return _cron(trigger), trigger.tenant_id
    owner = await find_tenant(conn, tenant)
    return read_cron(cron or "", timezone or owner.timezone), owner.id


def _cron(trigger: Trigger) -> Cron:
    if trigger.cron_expr is None:
        raise typer.BadParameter("that trigger fires on events and has no schedule")
    return cron_of(trigger)


async def _all(conn: Connection, owner: UUID | None) -> list[Trigger]:
    found: list[Trigger] = []
    while page := await list_triggers(conn, tenant_id=owner, after=found[-1].id if found else None):
        found += page
    return found


def _row(trigger: Trigger, names: TenantNames) -> tuple[object, ...]:
    when = f"{trigger.cron_expr} ({trigger.zone})" if trigger.trigger_type == "schedule" else f"on {trigger.event_name}"
    state = "failed" if trigger.last_error is not None else "enabled" if trigger.is_enabled else "disabled"
    if not trigger.target_exists:
        state = f"no {trigger.target[0].replace('_', ' ')}"
    times = (_time(trigger.next_fire_at), _time(trigger.last_fire_at))
    return trigger.id, names.slug(trigger.tenant_id), trigger.label, when, trigger.target[1], *times, state


def _time(time: Any) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
