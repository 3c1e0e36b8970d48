"""`atlas engine`: switches the engine, which turns requests for workflows into runs."""

from typing import TYPE_CHECKING

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.steering.status import Reason
from atlas.cli.terminal.output import Json, say

if TYPE_CHECKING:
    from atlas.models.system import Gate

app = typer.Typer(help="Switch the engine of workflows.", no_args_is_help=True, add_completion=False)


@app.command("on")
def on(reason: Reason = None, json: Json = False) -> None:
    """Let requests for workflows become runs, while Atlas is online."""
    _switch(enabled=True, reason=reason, json=json)


@app.command("off")
def off(reason: Reason = None, json: Json = False) -> None:
    """Let requests for workflows wait. Runs that have started continue, and so do all other jobs."""
    _switch(enabled=False, reason=reason, json=json)


def _switch(*, enabled: bool, reason: str | None, json: bool) -> None:
    gate = on_atlas(lambda atlas: atlas.switch_engine(enabled, reason=reason))
    say(gate, _text(gate), json=json)


def _text(gate: "Gate") -> str:
    if not gate.engine_enabled:
        return gate.engine_off_because
    return "The engine is on." if gate.online else f"The engine is on, and waits: {gate.closed_because}"
