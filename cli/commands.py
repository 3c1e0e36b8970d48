"""Which command stands in which module. A module is imported when its command is asked for: most people ask for one."""

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# In the order in which help shows them.
PLACES = {
    "up": "cli.up:up",
    "api": "cli.api:api",
    "worker": "cli.worker:worker",
    "scheduler": "cli.scheduler:scheduler",
    "agent": "cli.agent:agent",
    "migrate": "cli.migrate:migrate",
    "doctor": "cli.doctor:doctor",
    "status": "cli.status:status",
    "online": "cli.status:online",
    "offline": "cli.status:offline",
    "usage": "cli.usage:usage",
    "bench": "cli.bench:bench",
    "enqueue": "cli.jobs:enqueue_job",
    "audit": "cli.audit:app",
    "jobs": "cli.jobs:app",
    "workflow": "cli.workflow:app",
    "outbox": "cli.outbox:app",
    "trigger": "cli.trigger:app",
    "event": "cli.event:app",
    "tenant": "cli.tenant:app",
    "token": "cli.token:app",
    "host": "cli.host:app",
    "definition": "cli.definition:app",
}


class Commands(TyperGroup):
    """The subcommands of `atlas`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name not in PLACES:
            return None
        return _load(cmd_name)


@cache
def _load(name: str) -> TyperCommand | TyperGroup:
    module, _, attribute = PLACES[name].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name = name
    return command
