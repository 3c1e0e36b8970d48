"""`atlas trigger`: schedules and events that start jobs and workflows."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.connect import either
from atlas.cli.durations import parse_duration
from atlas.cli.ids import find_id
from atlas.cli.output import Json, say, table
from atlas.cli.over_http_rows import find_listed, own_tenant, row_of, tenant_names
from atlas.cli.parameters import OBJECT, read_object
from atlas.cli.runtime import caller, connected
from atlas.cli.tenant_names import TenantNames, names_of, tenant_id
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row
from atlas.engine.tenants import find_tenant
from atlas.engine.triggers.cron import Cron, read_cron
from atlas.engine.triggers.find import Trigger, find_trigger, list_triggers
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.preview import Occurrence, preview
from atlas.engine.triggers.spec import TriggerSpec
from atlas.engine.triggers.store import CLOCK, add_trigger, edit_trigger, remove_trigger
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient, TriggerShown

app = typer.Typer(
    help="Start jobs and workflows on a schedule or on events.", no_args_is_help=True, add_completion=False
)

TriggerId = Annotated[str, typer.Argument(metavar="ID", help="The trigger's id, or its beginning.")]
Label = Annotated[str | None, typer.Option(help="A name to show.")]
CronExpr = Annotated[str | None, typer.Option("--cron", help="Five fields, or a name such as @hourly.")]
Zone = Annotated[str | None, typer.Option("--timezone", help="Its time zone; the tenant's by default.")]
EventName = Annotated[str | None, typer.Option("--event", help="An event's name, or a prefix of names: invoice.*")]
JobType = Annotated[str | None, typer.Option("--job-type", help="The job type to enqueue.")]
DefinitionKey = Annotated[str | None, typer.Option("--definition", help="The command definition to run.")]
Workflow = Annotated[str | None, typer.Option("--workflow", help="The workflow to request.")]
Input = Annotated[str | None, typer.Option("--input", metavar=OBJECT, help="The input: a template.")]
Misfire = Annotated[str | None, typer.Option(help="Which missed times fire: skip, latest or all.")]
Window = Annotated[
    str | None,
    typer.Option("--dedupe-window", metavar="DURATION", help="Equal inputs within it start once; 0 turns it off."),
]


@app.command("add")
def add(
    tenant: Annotated[str, typer.Option(help="Whose trigger it is, by slug or id.")],
    label: Label = None,
    cron: CronExpr = None,
    timezone: Zone = None,
    event: EventName = None,
    job_type: JobType = None,
    definition: DefinitionKey = None,
    workflow: Workflow = None,
    input_: Input = None,
    misfire: Misfire = None,
    dedupe_window: Window = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it disabled: it does not fire.")] = False,
    json: Json = False,
) -> None:
    """Add a trigger."""
    target = {"job_type": job_type, "definition_key": definition, "workflow": workflow}
    described = _described(label, cron, timezone, event, input_, misfire, dedupe_window) | _given(target)
    described.setdefault("trigger_type", "schedule" if event is None else "event")
    described.setdefault("label", cron or event or "")
    described["is_enabled"] = not disabled

    async def work(settings: Settings) -> tuple[Trigger, TenantNames]:
        async with connected(settings) as conn:
            added = await add_trigger(conn, await tenant_id(conn, tenant), described, actor=caller())
            return added, await names_of(conn, [added])

    async def over_http(atlas: "AtlasClient") -> tuple[Trigger, TenantNames]:
        return _trigger(await atlas.create_trigger(**described)), await tenant_names(atlas)

    added, names = either(work, over_http, tenant=tenant)
    say(names.document(added.as_json()), f"Trigger {added.id} is added.{_first(added)}", json=json)


@app.command("edit")
def edit(
    trigger_id: TriggerId,
    label: Label = None,
    cron: CronExpr = None,
    timezone: Zone = None,
    event: EventName = None,
    job_type: JobType = None,
    definition: DefinitionKey = None,
    workflow: Workflow = None,
    input_: Input = None,
    misfire: Misfire = None,
    dedupe_window: Window = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it fires.")] = None,
    json: Json = False,
) -> None:
    """Change a trigger. A new target replaces the old one."""
    changes = _described(label, cron, timezone, event, input_, misfire, dedupe_window)
    target = _given({"job_type": job_type, "definition_key": definition, "workflow": workflow})
    if target:
        changes |= {"job_type": None, "definition_key": None, "workflow": None, **target}
    # Fields of the other type are cleared, unless they were given as well: then the change is refused.
    if event is not None:
        changes = {"cron_expr": None, "timezone": None, **changes}
    elif cron is not None:
        changes = {"event_name": None, **changes}
    if enable is not None:
        changes["is_enabled"] = enable
    if not changes:
        raise typer.BadParameter("give at least one option to change")

    async def work(settings: Settings) -> tuple[Trigger, TenantNames]:
        async with connected(settings) as conn:
            edited = await edit_trigger(conn, await find_id(conn, "trigger", trigger_id), changes, actor=caller())
            return edited, await names_of(conn, [edited])

    async def over_http(atlas: "AtlasClient") -> tuple[Trigger, TenantNames]:
        id = await find_listed("trigger", trigger_id, atlas.list_triggers())
        return _trigger(await atlas.edit_trigger(id, **changes)), await tenant_names(atlas)

    edited, names = either(work, over_http)
    say(names.document(edited.as_json()), f"Trigger {edited.id} is changed.{_first(edited)}", json=json)


@app.command("remove")
def remove(trigger_id: TriggerId, json: Json = False) -> None:
    """Remove a trigger. The jobs and runs it started stay."""

    async def work(settings: Settings) -> tuple[Trigger, TenantNames]:
        async with connected(settings, checks_inputs=False) as conn:
            removed = await remove_trigger(conn, await find_id(conn, "trigger", trigger_id), actor=caller())
            return removed, await names_of(conn, [removed])

    async def over_http(atlas: "AtlasClient") -> tuple[Trigger, TenantNames]:
        found = await atlas.get_trigger(await find_listed("trigger", trigger_id, atlas.list_triggers()))
        await atlas.remove_trigger(found.id)
        return _trigger(found), await tenant_names(atlas)

    removed, names = either(work, over_http)
    say(names.document(removed.as_json()), f"Trigger {removed.id} ({removed.spec.label}) is removed.", json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")] = None, json: Json = False
) -> None:
    """List the triggers."""

    async def work(settings: Settings) -> tuple[list[Trigger], TenantNames]:
        async with connected(settings, checks_inputs=False) as conn:
            found = await _all(conn, await tenant_id(conn, tenant))
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Trigger], TenantNames]:
        return [_trigger(one) async for one in atlas.list_triggers()], await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    columns = ("ID", "TENANT", "LABEL", "WHEN", "STARTS", "NEXT", "LAST", "STATE")
    rows = [_row(one, names) for one in found]
    say({"triggers": [names.document(one.as_json()) for one in found]}, table(columns, rows), json=json)


@app.command("fire")
def fire(
    trigger_id: TriggerId,
    context: Annotated[str, typer.Option(metavar=OBJECT, help="The context of the event to pretend.")] = "{}",
    json: Json = False,
) -> None:
    """Fire a trigger once, now. Its schedule stays as it is."""

    async def work(settings: Settings) -> tuple[UUID, UUID]:
        async with connected(settings) as conn:
            id, facts = await find_id(conn, "trigger", trigger_id), read_object("--context", context)
            return id, await fire_now(conn, id, actor=caller(), context=facts)

    async def over_http(atlas: "AtlasClient") -> tuple[UUID, UUID]:
        id = await find_listed("trigger", trigger_id, atlas.list_triggers())
        return id, (await atlas.fire_trigger(id, context=read_object("--context", context))).job_id

    id, started = either(work, over_http)
    say({"id": id, "job_id": started}, f"Trigger {id} fired and started {started}.", json=json)


@app.command("preview")
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
            id = await find_listed("trigger", trigger_id, atlas.list_triggers())
            schedule = _cron(_trigger(await atlas.get_trigger(id)))
            times = await atlas.preview_trigger(id, count=count)
        else:
            schedule = read_cron(cron or "", timezone or (await own_tenant(atlas, tenant)).timezone)
            times = await atlas.preview_schedule(cron or "", timezone=schedule.zone.key, count=count)
        return schedule, [Occurrence(datetime.fromisoformat(one.local), one.utc, one.note) for one in times.items]

    schedule, times = either(work, over_http, tenant=tenant)
    document = {"cron": schedule.fields, "timezone": schedule.zone.key, "times": times}
    rows = [(f"{one.local:%a %Y-%m-%d %H:%M %z}", f"{one.utc:%Y-%m-%d %H:%M}", one.note) for one in times]
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
    if trigger.spec.cron_expr is None:
        raise typer.BadParameter("that trigger fires on events and has no schedule")
    return trigger.cron


def _trigger(shown: "TriggerShown") -> Trigger:
    spec = TriggerSpec(**shown.model_dump(include={*TriggerSpec.model_fields}))
    return row_of(Trigger, shown, spec=spec, edited_by=None)


async def _all(conn: Connection, owner: UUID | None) -> list[Trigger]:
    found: list[Trigger] = []
    while page := await list_triggers(conn, tenant_id=owner, after=found[-1].id if found else None):
        found += page
    return found


def _described(
    label: str | None,
    cron: str | None,
    timezone: str | None,
    event: str | None,
    input_: str | None,
    misfire: str | None,
    dedupe_window: str | None,
) -> dict[str, Any]:
    """The fields that were given as options."""
    described = _given(
        {"label": label, "cron_expr": cron, "timezone": timezone, "event_name": event, "misfire": misfire}
    )
    if input_ is not None:
        described["payload_template"] = read_object("--input", input_)
    if dedupe_window is not None:
        window = timedelta() if dedupe_window == "0" else parse_duration(dedupe_window)
        described["dedupe_window_seconds"] = int(window.total_seconds())
    if cron is not None or event is not None:
        described["trigger_type"] = "schedule" if event is None else "event"
    return described


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _first(trigger: Trigger) -> str:
    kind, name = trigger.spec.target
    missing = "" if trigger.target_exists else f" There is no {kind.replace('_', ' ')} {name} yet."
    if trigger.next_fire_at is None or not trigger.spec.is_enabled:
        return missing
    return f"{missing} It is next due at {trigger.next_fire_at:%Y-%m-%d %H:%M} UTC."


def _row(trigger: Trigger, names: TenantNames) -> tuple[object, ...]:
    spec = trigger.spec
    when = f"{spec.cron_expr} ({trigger.zone})" if spec.trigger_type == "schedule" else f"on {spec.event_name}"
    state = "failed" if trigger.last_error is not None else "enabled" if spec.is_enabled else "disabled"
    if not trigger.target_exists:
        state = f"no {spec.target[0].replace('_', ' ')}"
    times = (_time(trigger.next_fire_at), _time(trigger.last_fire_at))
    return trigger.id, names.slug(trigger.tenant_id), spec.label, when, spec.target[1], *times, state


def _time(time: Any) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
