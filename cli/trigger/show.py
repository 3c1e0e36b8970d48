"""`atlas trigger list`, `show`, `fires` and `preview`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import all_of, find_row, own_tenant, resolve_id, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.facts import facts_table
from atlas.cli.terminal.output import Json, say, say_page, table
from atlas.cli.terminal.parameters import Limit, TenantFilter
from atlas.engine.triggers.cron import Cron, read_cron
from atlas.engine.triggers.preview import MAX_OCCURRENCES
from atlas.models.triggers import Fire, Occurrence

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Page, Trigger

TriggerId = Annotated[str, typer.Argument(metavar="ID", help="The trigger's id, or its beginning.")]
CronExpr = Annotated[str | None, typer.Option("--cron", help="Five fields, or a name such as @hourly.")]
Zone = Annotated[str | None, typer.Option("--timezone", help="Its time zone; the tenant's by default.")]
NO_TRIGGERS = "There are no triggers. Add one with `atlas trigger add`; `atlas trigger add --help` shows how."


def show(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the triggers."""
    triggers, names = with_names(lambda atlas: all_of(atlas.list_triggers()), tenant=tenant)
    columns = ("ID", "TENANT", "LABEL", "WHEN", "STARTS", "NEXT", "LAST", "STATE")
    rows = [_row(trigger, names) for trigger in triggers]
    documents = [names.document(trigger) for trigger in triggers]
    say({"triggers": documents}, table(columns, rows) if rows else NO_TRIGGERS, json=json)


def show_one(trigger_id: TriggerId, json: Json = False) -> None:
    """Show a trigger: when it fires, what it starts with which input, and how its last firing went."""
    trigger, names = with_names(lambda atlas: find_row(atlas, "trigger", trigger_id, atlas.get_trigger))
    document = names.document(trigger)
    say(document, facts_table(document), json=json)


def show_fires(
    trigger_id: TriggerId,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Show the firings before this one.")] = None,
    json: Json = False,
) -> None:
    """List the firings of a trigger, newest first: what each started, or why it started nothing."""

    async def work(atlas: "AtlasClient") -> "Page[Fire]":
        id = await resolve_id(atlas, "trigger", trigger_id)
        return await atlas.list_trigger_fires(id).page(limit=limit, cursor=before)

    page = on_atlas(work)
    rows = [
        (_time(fire.fired_at), _time(fire.due_at), fire.result, fire.job_id, fire.error, fire.created_by, fire.id)
        for fire in page.items
    ]
    columns = ("FIRED", "DUE", "RESULT", "JOB", "ERROR", "BY", "ID")
    text = table(columns, rows) if rows else "The trigger has not fired."
    say_page("fires", [dict(fire) for fire in page.items], text, next_before=page.next_cursor, json=json)


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
    count: Annotated[int, typer.Option(min=1, max=MAX_OCCURRENCES)] = 20,
    json: Json = False,
) -> None:
    """Show the next due times of a schedule, and how clock changes affect them."""
    if (trigger_id is None) == (cron is None):
        raise typer.BadParameter("give a trigger's id, or an expression with --cron")

    async def work(atlas: "AtlasClient") -> tuple[Cron, list[Occurrence]]:
        if trigger_id is not None:
            id = await resolve_id(atlas, "trigger", trigger_id)
            trigger = await atlas.get_trigger(id)
            if trigger.cron_expr is None:
                raise typer.BadParameter("that trigger fires on events and has no schedule")
            schedule = read_cron(trigger.cron_expr, trigger.zone)
            times = await atlas.preview_trigger(id, count=count)
        else:
            schedule = read_cron(cron or "", timezone or (await own_tenant(atlas, tenant)).timezone)
            times = await atlas.preview_schedule(cron or "", timezone=schedule.zone.key, count=count)
        return schedule, times.items

    schedule, times = on_atlas(work, tenant=tenant)
    document = {"cron": schedule.fields, "timezone": schedule.zone.key, "times": times}
    rows = [
        (f"{datetime.fromisoformat(moment.local):%a %Y-%m-%d %H:%M %z}", f"{moment.utc:%Y-%m-%d %H:%M}", moment.note)
        for moment in times
    ]
    say(document, table((schedule.zone.key, "UTC", ""), rows), json=json)


def _row(trigger: "Trigger", names: TenantNames) -> tuple[object, ...]:
    is_schedule = trigger.trigger_type == "schedule"
    when = f"{trigger.cron_expr} ({trigger.zone})" if is_schedule else f"on {trigger.event_name}"
    state = "failed" if trigger.last_error is not None else "enabled" if trigger.is_enabled else "disabled"
    kind, name = trigger.target
    if not trigger.target_exists:
        state = f"no {kind.replace('_', ' ')}"
    times = (_time(trigger.next_fire_at), _time(trigger.last_fire_at))
    return trigger.id, names.slug(trigger.tenant_id), trigger.label, when, name, *times, state


def _time(time: Any) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
