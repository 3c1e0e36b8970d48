"""Maps each subcommand to its module. Only the module of the command that runs is imported, which keeps it quick."""

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# In the order of `atlas --help`.
COMMANDS = {
    "up": "atlas.cli.up:up",
    "api": "atlas.cli.api:api",
    "worker": "atlas.cli.worker:worker",
    "scheduler": "atlas.cli.scheduler:scheduler",
    "agent": "atlas.cli.agent:agent",
    "migrate": "atlas.cli.migrate:migrate",
    "backup": "atlas.cli.backup:backup",
    "restore": "atlas.cli.backup:restore",
    "doctor": "atlas.cli.doctor:doctor",
    "status": "atlas.cli.status:status",
    "online": "atlas.cli.status:online",
    "offline": "atlas.cli.status:offline",
    "engine": "atlas.cli.engine:app",
    "usage": "atlas.cli.usage:usage",
    "bench": "atlas.cli.bench:bench",
    "enqueue": "atlas.cli.jobs:enqueue_job",
    "audit": "atlas.cli.audit:app",
    "jobs": "atlas.cli.jobs:app",
    "workflow": "atlas.cli.workflow:app",
    "outbox": "atlas.cli.outbox:app",
    "trigger": "atlas.cli.trigger:app",
    "event": "atlas.cli.event:app",
    "recurring": "atlas.cli.recurring:app",
    "webhooks": "atlas.cli.webhooks:app",
    "hooks": "atlas.cli.hooks:app",
    "tenant": "atlas.cli.tenant:app",
    "token": "atlas.cli.token:app",
    "sign-in": "atlas.cli.sign_in:sign_in",
    "grant": "atlas.cli.grant:app",
    "host": "atlas.cli.host:app",
    "definition": "atlas.cli.definition:app",
}


class CommandTable(TyperGroup):
    """The subcommands of `atlas`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name not in COMMANDS:
            return None
        return _load(cmd_name)


@cache
def _load(name: str) -> TyperCommand | TyperGroup:
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        command = typer.main.get_command(single)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name = name
    return command
