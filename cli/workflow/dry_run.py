"""`atlas workflow dry-run`: what a run would do, without doing it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, dump_json, say, table
from atlas.cli.terminal.parameters import OBJECT, read_json_file, read_object
from atlas.errors import FieldError, InvalidInput, Refused

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.base import ProblemField
    from atlas.models.workflows import DryRun, DryStep


def command(
    workflow: Annotated[str, typer.Argument(help="A declared workflow's key, or a JSON file with one.")],
    input_: Annotated[str, typer.Option("--input", metavar=OBJECT, help="The run's input, a JSON object.")] = "{}",
    outputs: Annotated[
        str, typer.Option("--outputs", metavar=OBJECT, help="Outputs to assume, by the ids of their steps.")
    ] = "{}",
    tenant: Annotated[
        str | None, typer.Option(help="The run's tenant, by slug or id; that of the token, or system, if not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Show which steps of a declared workflow would run, and with what, without running any.

    It ends with 1 if the document or the input is refused, or a step would fail.
    """
    payload, supposed = read_object("--input", input_), read_object("--outputs", outputs)
    file = read_json_file(Path(workflow)) if workflow.endswith(".json") else None

    async def work(atlas: "AtlasClient") -> "DryRun":
        document = file or _document(workflow, (await atlas.get_workflow(workflow)).document)
        return await atlas.dry_run_workflow(document, input=payload, outputs=supposed)

    result = on_atlas(work, tenant=tenant)
    if result.errors and not result.steps:
        raise InvalidInput(workflow, [FieldError(error.field, error.reason) for error in result.errors])
    say(result, [_steps(result.steps), *_notes(result)], json=json)
    if not result.ok:
        raise typer.Exit(1)


def _document(key: str, document: dict[str, Any] | None) -> dict[str, Any]:
    if document is None:
        raise Refused(f"{key} is in the code of workers.", remedy="A dry run follows declared workflows.")
    return document


def _steps(steps: "list[DryStep]") -> Any:
    rows = [(step.id, step.kind, step.target, step.decision, step.reason, _input(step)) for step in steps]
    return table(("STEP", "KIND", "TARGET", "DECISION", "WHY", "INPUT"), rows)


def _input(step: "DryStep") -> str:
    text = "" if not step.inputs or step.inputs[0] == {} else dump_json(step.inputs[0])
    return text if step.items is None else f"{step.items} items; the first: {text}"


def _notes(result: "DryRun") -> list[str]:
    lines = _lines("error", result.errors)
    for step in result.steps:
        lines += [*_lines("error", step.errors), *_lines("warning", step.warnings)]
        lines += [f"{pending.field} {pending.reason}" for pending in step.pending]
    return [*lines, f"It would return {dump_json(result.output)}."] if result.ok else lines


def _lines(word: str, problems: "list[ProblemField]") -> list[str]:
    return [f"{word}: {problem.field}: {problem.reason}" for problem in problems]
