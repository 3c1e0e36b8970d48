"""`atlas workflow policy`: the rules by which requests are judged."""

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.connection.client_lists import all_of, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.workflow.arguments import Tenant

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(
    help="Policy: rules that allow, review or block starts of workflows.", no_args_is_help=True, add_completion=False
)

Label = Annotated[str, typer.Argument(help="The rule's name.")]
Bound = Annotated[str | None, typer.Option(metavar="N|none", help="Another bound, as for `add`; none removes it.")]
Owner = Annotated[str | None, typer.Option("--tenant", help="The tenant it holds for, by slug or id; without it, all.")]


@app.command("add")
def add(
    label: Label,
    effect: Annotated[str, typer.Option(help="allow, review or block.")],
    workflow: Annotated[str, typer.Option(help="Which workflows, a pattern with * and ?.")] = "*",
    except_: Annotated[list[str] | None, typer.Option("--except", help="Exclude these; may be repeated.")] = None,
    spend_above: Annotated[int | None, typer.Option(help="When one run spends more cents than this.")] = None,
    spend_per_day: Annotated[int | None, typer.Option(help="When a day's runs spend more cents than this.")] = None,
    runs_per_day: Annotated[int | None, typer.Option(help="When there are more runs a day than this.")] = None,
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Add a rule. It applies when all of its thresholds are exceeded; the strictest rule decides."""

    async def work(atlas: "AtlasClient") -> UUID:
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

    rule_id = on_atlas(work, tenant=tenant)
    say({"id": rule_id, "label": label}, f"Rule {label!r} added.", json=json)


@app.command("edit")
def edit(
    label: Label,
    effect: Annotated[str | None, typer.Option(help="allow, review or block.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Which workflows, a pattern with * and ?.")] = None,
    except_: Annotated[list[str] | None, typer.Option("--except", help="Exclude these; may be repeated.")] = None,
    spend_above: Bound = None,
    spend_per_day: Bound = None,
    runs_per_day: Bound = None,
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Change a rule. Omitted options change nothing; `none` removes a bound."""
    bounds = {"spend_above_cents": spend_above, "spend_per_day_cents": spend_per_day, "runs_per_day": runs_per_day}
    given = {"effect": effect, "workflow": workflow, "except_workflows": except_}
    changes: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    changes |= {field: _read_bound(text) for field, text in bounds.items() if text is not None}
    if not changes:
        raise typer.BadParameter("give at least one option to change")
    rule, names = with_names(lambda atlas: atlas.edit_policy(label, **changes), tenant=tenant)
    say(names.document(rule), f"Rule {label!r} updated.", json=json)


@app.command("list")
def show(tenant: Tenant = None, json: Json = False) -> None:
    """List the rules."""
    rules, names = with_names(lambda atlas: all_of(atlas.list_policies()), tenant=tenant)
    columns = ("LABEL", "EFFECT", "WORKFLOW", "EXCEPT", "SPEND ABOVE", "SPEND A DAY", "RUNS A DAY", "TENANT")
    rows = [
        (
            rule.label,
            rule.effect,
            rule.workflow,
            ", ".join(rule.except_workflows),
            rule.spend_above_cents,
            rule.spend_per_day_cents,
            rule.runs_per_day,
            names.slug(rule.tenant_id) or "all",
        )
        for rule in rules
    ]
    text = table(columns, rows) if rows else "There are no rules: every request is allowed."
    say({"rules": [names.document(rule) for rule in rules]}, text, json=json)


@app.command("remove")
def remove(label: Label, tenant: Owner = None, json: Json = False) -> None:
    """Remove a rule."""

    async def work(atlas: "AtlasClient") -> None:
        await atlas.remove_policy(label)

    on_atlas(work, tenant=tenant)
    say({"label": label, "removed": True}, f"Rule {label!r} removed.", json=json)


def _read_bound(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number nor none")
    return int(text)
