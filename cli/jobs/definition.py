"""`atlas definition`: the programs that command jobs may run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atlas.cli.connection.client_lists import all_of
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.facts import facts_table
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import UnreadableFile, read_json_file

app = typer.Typer(help="The programs that command jobs may run.", no_args_is_help=True, add_completion=False)

Key = Annotated[str, typer.Argument(help="The definition's key.")]


@app.command("add")
def add(
    file: Annotated[Path, typer.Argument(help="A JSON file with the definition; see docs/commands.md.")],
    json: Json = False,
) -> None:
    """Add a definition, which allows a program."""
    described = read_definition(file)
    added = on_atlas(lambda atlas: atlas.create_definition(described))
    say(added, f"Definition {added.key} added.", json=json)


@app.command("edit")
def edit(
    key: Key,
    file: Annotated[Path | None, typer.Argument(help="A JSON file with the fields to change.")] = None,
    timeout: Annotated[int | None, typer.Option(min=1, help="Its time limit, in seconds.")] = None,
    max_retries: Annotated[int | None, typer.Option(min=0, help="Retries after the first failure.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="How many of its jobs may run at once.")] = None,
    concurrency_key: Annotated[
        str | None, typer.Option(help="Limit by this key, such as {{ input.customer }}.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="How many of its jobs may start: 100/minute.")] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="How many may start together after an idle time.")] = None,
    enable: Annotated[bool, typer.Option("--enable", help="Enable it again.")] = False,
    json: Json = False,
) -> None:
    """Change a definition. Attempts that start afterwards use it."""
    named: dict[str, int | str | None] = {
        "timeout_seconds": timeout,
        "max_retries": max_retries,
        "concurrency": concurrency,
        "concurrency_key": concurrency_key,
        "rate": rate,
        "burst": burst,
    }
    changes = {} if file is None else read_definition(file)
    changes |= {name: value for name, value in named.items() if value is not None}
    if enable:
        changes["is_active"] = True
    if not changes:
        raise typer.BadParameter("give a file, or an option to change", param_hint="FILE")
    edited = on_atlas(lambda atlas: atlas.edit_definition(key, changes))
    say(edited, f"Definition {key} updated.", json=json)


@app.command("disable")
def disable(key: Key, json: Json = False) -> None:
    """Disable a definition. Its jobs wait until it is enabled again."""
    disabled = on_atlas(lambda atlas: atlas.disable_definition(key))
    say(disabled, f"Definition {key} disabled.", json=json)


@app.command("show")
def show_one(key: Key, json: Json = False) -> None:
    """Show a definition: its program, its arguments, its limits and the schema of its input."""
    definition = on_atlas(lambda atlas: atlas.get_definition(key))
    say(definition, facts_table(definition.model_dump()), json=json)


@app.command("list")
def show(
    active: Annotated[bool, typer.Option("--active", help="Only those that are enabled.")] = False, json: Json = False
) -> None:
    """List the definitions."""
    definitions = on_atlas(lambda atlas: all_of(atlas.list_definitions(active_only=active)))
    columns = ("KEY", "ACTIVE", "TIMEOUT", "AT ONCE", "PROGRAM")
    rows = [
        (
            definition.key,
            "yes" if definition.is_active else "no",
            definition.timeout_seconds,
            definition.concurrency,
            definition.argv[0],
        )
        for definition in definitions
    ]
    text = table(columns, rows) if rows else "There are no definitions. Add one with `atlas definition add FILE`."
    say({"definitions": definitions}, text, json=json)


def read_definition(file: Path) -> dict[str, Any]:
    """A definition from its file. The path of a program that begins with ./ or ../ is relative to the file."""
    described = read_json_file(file)
    if not isinstance(described, dict):
        raise UnreadableFile(f"{file} does not hold a JSON object.", remedy="Correct the file.")
    match described.get("argv"):
        case [program, *rest]:
            described["argv"] = [_beside(file, program), *rest]
    match described.get("programs"):
        case dict(programs):
            described["programs"] = {name: _beside(file, path) for name, path in programs.items()}
    return described


def _beside(file: Path, program: Any) -> Any:
    if isinstance(program, str) and program.startswith(("./", "../")):
        return str((file.parent / program).resolve())
    return program
