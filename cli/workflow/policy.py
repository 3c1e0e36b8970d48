"""`atlas workflow policy`: the rules by which requests are judged."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import rows_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.workflow.arguments import Tenant
from atlas.engine.policy.rules import add_rule, list_rules, remove_rule
from atlas.models.approvals import PolicyRule
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(
    help="The rules by which requests for workflows are judged.", no_args_is_help=True, add_completion=False
)

Label = Annotated[str, typer.Argument(help="The rule's name.")]
Owner = Annotated[str | None, typer.Option("--tenant", help="The tenant it holds for, by slug or id; without it, all.")]


@app.command("add")
def add(
    label: Label,
    effect: Annotated[str, typer.Option(help="allow, review or block.")],
    workflow: Annotated[str, typer.Option(help="Which workflows, a pattern with * and ?.")] = "*",
    except_: Annotated[list[str] | None, typer.Option("--except", help="But not these; may be repeated.")] = None,
    spend_above: Annotated[int | None, typer.Option(help="When one run spends more cents than this.")] = None,
    spend_per_day: Annotated[int | None, typer.Option(help="When a day's runs spend more cents than this.")] = None,
    runs_per_day: Annotated[int | None, typer.Option(help="When there are more runs a day than this.")] = None,
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Add a rule. It applies when everything it names is exceeded; the strictest rule decides."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings) as conn:
            return await add_rule(
                conn,
                label=label,
                effect=effect,
                workflow=workflow,
                except_workflows=except_ or [],
                spend_above_cents=spend_above,
                spend_per_day_cents=spend_per_day,
                runs_per_day=runs_per_day,
                tenant_id=await tenant_id(conn, tenant),
                actor=caller(),
            )

    async def over_http(atlas: "AtlasClient") -> UUID:
        added = await atlas.create_policy(
            label,
            effect,
            workflow=workflow,
            except_workflows=except_ or [],
            spend_above_cents=spend_above,
            spend_per_day_cents=spend_per_day,
            runs_per_day=runs_per_day,
        )
        return added.id

    rule_id = either(work, over_http, tenant=tenant)
    say({"id": rule_id, "label": label}, f"Rule {label!r} is added.", json=json)


@app.command("list")
def show(tenant: Tenant = None, json: Json = False) -> None:
    """List the rules."""

    async def work(settings: Settings) -> tuple[list[PolicyRule], TenantNames]:
        async with connected(settings) as conn:
            found = await list_rules(conn, tenant_id=await tenant_id(conn, tenant))
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[PolicyRule], TenantNames]:
        return await rows_of(PolicyRule, atlas.list_policies()), await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    columns = ("LABEL", "EFFECT", "WORKFLOW", "EXCEPT", "SPEND ABOVE", "SPEND A DAY", "RUNS A DAY", "TENANT")
    rows = [
        (
            one.label,
            one.effect,
            one.workflow,
            ", ".join(one.except_workflows),
            one.spend_above_cents,
            one.spend_per_day_cents,
            one.runs_per_day,
            names.slug(one.tenant_id) or "all",
        )
        for one in found
    ]
    text = table(columns, rows) if rows else "There are no rules: every request is allowed."
    say({"rules": [names.document(one) for one in found]}, text, json=json)


@app.command("remove")
def remove(label: Label, tenant: Owner = None, json: Json = False) -> None:
    """Remove a rule."""

    async def work(settings: Settings) -> None:
        async with connected(settings) as conn:
            await remove_rule(conn, label, tenant_id=await tenant_id(conn, tenant), actor=caller())

    async def over_http(atlas: "AtlasClient") -> None:
        await atlas.remove_policy(label)

    either(work, over_http, tenant=tenant)
    say({"label": label, "removed": True}, f"Rule {label!r} is removed.", json=json)
