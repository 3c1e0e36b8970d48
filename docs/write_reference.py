"""Writes the reference pages from the code: `python docs/write_reference.py`. A test compares them with the code.

`docs/reference-cli.md` has every command and option, `docs/reference-api.md` every route.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

DOCS = Path(__file__).parent
GENERATED = "<!-- Written by docs/write_reference.py. -->"


def pages() -> dict[str, str]:
    """The text of each reference page."""
    return {"reference-cli.md": command_line(), "reference-api.md": http_api()}


def command_line() -> str:
    """Every command with its arguments and options."""
    from atlas.cli.command_table import COMMANDS, load_command

    sections = [section for name in COMMANDS for section in _commands(load_command(name), f"atlas {name}")]
    return (
        "\n\n".join(
            [
                f"# Command reference\n\n{GENERATED}",
                "For people and scripts that look up a command: every command, its arguments and its options."
                " [The command line](command-line.md) explains what they have in common."
                " Every command takes `--help` and `--json`.",
                *sections,
            ]
        )
        + "\n"
    )


def _commands(command: Any, name: str, level: int = 2) -> Iterator[str]:
    """A command, or a group and the commands in it."""
    inner = getattr(command, "commands", None)
    yield f"{'#' * level} {name}\n\n{_prose(command.help)}"
    if inner is not None:
        for key in inner:
            yield from _commands(inner[key], f"{name} {key}", 3)
        return
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    words = [_argument(parameter) for parameter in arguments]
    yield "```text\n" + " ".join([name, *words, "[OPTIONS]"]) + "\n```"
    rows = [f"| `{_argument(argument)}` | {_cell(argument.help)} |" for argument in arguments if argument.help]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    rows += [_option(option) for option in options if not option.hidden and option.opts != ["--json"]]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])


def _argument(parameter: Any) -> str:
    word = parameter.metavar or parameter.name.upper()
    if parameter.nargs == -1:
        word += "…"
    return word if parameter.required or word.startswith("[") else f"[{word}]"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    notes = [_cell(option.help)] if option.help else []
    annotation = option.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        notes.append(f"One of {', '.join(f'`{choice}`' for choice in get_args(annotation))}.")
    if option.required:
        notes.append("Required.")
    default = option.default
    if default not in (None, False, True, (), [], "") and not callable(default):
        notes.append(f"Default: `{default}`.")
    if option.multiple and "repeated" not in (option.help or ""):
        notes.append("May be given several times.")
    return f"| {names} | {' '.join(notes)} |"


def http_api() -> str:
    """Every route, by subject."""
    from atlas.api.app import read_description

    description = read_description()
    routes: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            routes.setdefault(operation["tags"][0], []).append(_route(description, method, path, operation))
    parts = [
        f"# API reference\n\n{GENERATED}",
        "For people who call the API without the Python client: every route, by subject. [The API](api.md) explains"
        " tokens, roles, pages and errors. A running API has all of it at `/docs`, with types, responses and examples,"
        " and at `/openapi.json`."
        " An asterisk marks a field that is required.",
    ]
    head = "| route | what it does | query | body |\n| --- | --- | --- | --- |"
    for tag in description["tags"]:
        rows = "\n".join(routes.pop(tag["name"], []))
        if rows:
            parts.append(f"## {tag['name'].capitalize()}\n\n{tag['description']}\n\n{head}\n{rows}")
    assert not routes, f"tags without a description: {sorted(routes)}"
    return "\n\n".join(parts) + "\n"


def _route(description: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    query = [f"`{parameter['name']}`" for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    body = [f"`{name}`" for name in _body_fields(description, operation)]
    summary = _cell(operation["summary"])
    return f"| `{method.upper()} {path}` | {summary} | {', '.join(query)} | {', '.join(body)} |"


def _body_fields(description: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The fields of a body that is a JSON object; those that every form of it requires end with an asterisk."""
    content = operation.get("requestBody", {}).get("content", {})
    schemas = list(_objects(description, content.get("application/json", {}).get("schema", {})))
    names = dict.fromkeys(name for schema in schemas for name in schema.get("properties", {}))
    return [f"{name}*" if all(name in schema.get("required", ()) for schema in schemas) else name for name in names]


def _objects(description: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in schema:
        yield from _objects(description, description["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    elif "properties" in schema:
        yield schema
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from _objects(description, part)


def _prose(text: str | None) -> str:
    """The paragraphs of a help text, each on one line."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\f", text or "")]
    return "\n\n".join(part for part in paragraphs if part)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
