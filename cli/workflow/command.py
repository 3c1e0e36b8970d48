"""`atlas workflow`: asks for runs and steers them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from atlas.cli.output import Json, hint_at_more, say, table
from atlas.cli.parameters import OBJECT, read_id, read_json_file, read_object
from atlas.cli.runtime import caller, connected, execute
from atlas.cli.workflow import approvals, policy
from atlas.cli.workflow.arguments import Before, Limit, RunId, Tenant, read_before, tenant_id
from atlas.cli.workflow.render_run import as_document, draw, shown_age
from atlas.engine.tenants import find_tenant
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.store import Saved, WorkflowRow, enable_workflow, list_workflows, save_workflow
from atlas.engine.workflows.events import Published, signal_run
from atlas.engine.workflows.find_runs import RunDetails, RunRow, get_details, list_runs
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.policy import Verdict, check_policy
from atlas.engine.workflows.run_actions import cancel_run, fork_run, retry_run
from atlas.errors import InvalidInput, NotFound
from atlas.settings import Settings

app = typer.Typer(
    help="Ask for workflow runs, look at them and steer them.", no_args_is_help=True, add_completion=False
)
app.command("approve")(approvals.approve)
app.command("approvals")(approvals.approvals)
app.add_typer(policy.app, name="policy")

Owner = Annotated[str | None, typer.Option("--tenant", help="The tenant that owns it; without it, every tenant.")]


@app.command("run")
def run(
    workflow: Annotated[str, typer.Argument(help="The workflow's key.")],
    tenant: Annotated[str, typer.Option(help="Whose run it is.")] = "system",
    input_: Annotated[str, typer.Option("--input", metavar=OBJECT, help="The run's input, a JSON object.")] = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    spend_cents: Annotated[int, typer.Option(min=0, help="What it may cost, for policy to see.")] = 0,
    correlation_id: Annotated[str | None, typer.Option(help="Carried by the run and its jobs.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a workflow that no worker has published yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Ask for a run. The engine judges the request and starts it."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings) as conn:
            owner = await find_tenant(conn, tenant)
            return await request_workflow(
                conn,
                owner.id,
                workflow,
                read_object("--input", input_),
                caller(),
                priority=priority,
                spend_cents=spend_cents,
                correlation_id=correlation_id,
                allow_unknown=allow_unknown,
            )

    run_id = execute(work)
    say({"id": run_id, "workflow": workflow}, f"Run {run_id} of {workflow} is asked for.", json=json)


@app.command("list")
def show_list(
    status: Annotated[str | None, typer.Option(help="queued, waiting, running, succeeded, failed, canceled")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    tenant: Tenant = None,
    workflows: Annotated[bool, typer.Option("--workflows", help="The workflows there are, not their runs.")] = False,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List runs, newest first, or the workflows."""
    if workflows:
        _list_workflows(tenant, json=json)
        return

    async def work(settings: Settings) -> list[RunRow]:
        async with connected(settings) as conn:
            filters = {"tenant_id": await tenant_id(conn, tenant), "before": read_before(before)}
            return await list_runs(conn, **filters, status=status, workflow=workflow, limit=limit)

    found = execute(work)
    rows = [(one.status, one.workflow, one.id, one.requested_by, shown_age(one.created_at)) for one in found]
    columns = ("STATUS", "WORKFLOW", "ID", "REQUESTED BY", "AGE")
    text = table(columns, rows) if rows else "No run fits. Ask for one with `atlas workflow run`."
    say({"runs": [asdict(one) for one in found]}, text, json=json)
    if len(found) == limit:
        hint_at_more("--before", found[-1].id)


def _list_workflows(tenant: str | None, *, json: bool) -> None:
    async def work(settings: Settings) -> list[WorkflowRow]:
        async with connected(settings) as conn:
            return await list_workflows(conn, tenant_id=await tenant_id(conn, tenant))

    found = execute(work)
    rows = [
        (one.key, "in code" if one.kind == "code" else f"version {one.version}", _switch(one), one.description[:60])
        for one in found
    ]
    say({"workflows": [asdict(one) for one in found]}, table(("KEY", "KIND", "", "DESCRIPTION"), rows), json=json)


def _switch(workflow: WorkflowRow) -> str:
    return "" if workflow.is_enabled else "disabled"


@app.command("show")
def show(run_id: RunId, json: Json = False) -> None:
    """Show a run with its steps, and what it waits for."""

    async def work(settings: Settings) -> RunDetails:
        async with connected(settings) as conn:
            return await get_details(conn, read_id("RUN", run_id))

    details = execute(work)
    say(as_document(details), draw(details), json=json)


@app.command("check")
def check(
    workflow: Annotated[str, typer.Argument(help="A workflow's key, or a JSON file with a declared one.")],
    tenant: Annotated[str, typer.Option(help="For whom policy is asked.")] = "system",
    spend_cents: Annotated[int, typer.Option(min=0, help="What it would cost.")] = 0,
    json: Json = False,
) -> None:
    """Check a declared workflow's document, or ask policy what it would say, without starting anything."""
    if workflow.endswith(".json"):
        document = read_json_file(Path(workflow))
        errors = check_document(document)
        if errors:
            raise InvalidInput(workflow, errors)
        say({"file": workflow, "valid": True}, f"{workflow} is fit to be saved.", json=json)
        return

    async def work(settings: Settings) -> tuple[Verdict, bool]:
        async with connected(settings) as conn:
            owner = await find_tenant(conn, tenant)
            known = {one.key for one in await list_workflows(conn, tenant_id=owner.id)}
            return await check_policy(conn, owner.id, workflow, spend_cents=spend_cents), workflow in known

    verdict, is_known = execute(work)
    text = f"{verdict.effect}: {verdict.reason}"
    if not is_known:
        text += f"\nNo worker and no saved document is known for {workflow!r}; a run of it would fail."
    say({"workflow": workflow, "known": is_known, **asdict(verdict)}, text, json=json)


@app.command("signal")
def signal(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="The name the run waits for.")],
    context: Annotated[str, typer.Option(metavar=OBJECT, help="What it says, a JSON object.")] = "{}",
    json: Json = False,
) -> None:
    """Send an event to one run alone."""

    async def work(settings: Settings) -> Published:
        async with connected(settings) as conn:
            return await signal_run(
                conn, read_id("RUN", run_id), name, read_object("--context", context), actor=caller()
            )

    published = execute(work)
    effect = "woke it" if published.woken else "is kept until it waits for it"
    say({"id": published.id, "woken": published.woken}, f"The signal {name!r} {effect}.", json=json)


@app.command("cancel")
def cancel(run_id: RunId, json: Json = False) -> None:
    """Stop a run and its children."""

    async def work(settings: Settings) -> str:
        async with connected(settings) as conn:
            return await cancel_run(conn, read_id("RUN", run_id), actor=caller())

    verdict = execute(work)
    effects = {"canceled": "is canceled", "requested": "was asked to stop", "rejected": "is withdrawn before its start"}
    say({"id": run_id, "verdict": verdict}, f"Run {run_id} {effects[verdict]}.", json=json)


@app.command("retry")
def retry(run_id: RunId, json: Json = False) -> None:
    """Let a failed run go on from the step that failed."""

    async def work(settings: Settings) -> None:
        async with connected(settings) as conn:
            await retry_run(conn, read_id("RUN", run_id), actor=caller())

    execute(work)
    say({"id": run_id, "verdict": "retried"}, f"Run {run_id} goes on.", json=json)


@app.command("fork")
def fork(
    run_id: RunId,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="The first step to run anew, as shown.")],
    json: Json = False,
) -> None:
    """Ask for a new run that reuses what this one had recorded before a step."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings) as conn:
            return await fork_run(conn, read_id("RUN", run_id), step, actor=caller())

    forked = execute(work)
    say({"id": forked, "forked_from": run_id, "step": step}, f"Run {forked} is asked for.", json=json)


@app.command("save")
def save(
    file: Annotated[Path, typer.Argument(help="A JSON file with a declared workflow.")],
    tenant: Owner = None,
    json: Json = False,
) -> None:
    """Save a declared workflow as its newest version."""
    document: Any = read_json_file(file)

    async def work(settings: Settings) -> Saved:
        async with connected(settings) as conn:
            return await save_workflow(conn, document, actor=caller(), tenant_id=await tenant_id(conn, tenant))

    saved = execute(work)
    effect = "is saved" if saved.is_new else "was saved before"
    say(saved, f"{saved.key} {effect}: version {saved.version}.", json=json)


@app.command("enable")
def enable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Let a workflow start again."""
    _enable(key, tenant, enabled=True, json=json)


@app.command("disable")
def disable(key: Annotated[str, typer.Argument()], tenant: Owner = None, json: Json = False) -> None:
    """Let a workflow start no more; what runs goes on."""
    _enable(key, tenant, enabled=False, json=json)


def _enable(key: str, tenant: str | None, *, enabled: bool, json: bool) -> None:
    async def work(settings: Settings) -> None:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            known = [one.key for one in await list_workflows(conn, tenant_id=owner)]
            if key not in known:
                raise NotFound("workflow", key, remedy="`atlas workflow list --workflows` shows those there are.")
            await enable_workflow(conn, key, enabled=enabled, actor=caller(), tenant_id=owner)

    execute(work)
    say({"key": key, "enabled": enabled}, f"{key} is {'enabled' if enabled else 'disabled'}.", json=json)
