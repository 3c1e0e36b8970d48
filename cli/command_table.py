"""Maps each subcommand to its module. Only the module of the command that runs is imported, which keeps it quick.

Help and shell completion list the subcommands with the sentences here, without importing any of them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# In the order of `atlas --help`: where a command is, and what it does.
COMMANDS = {
    "up": ("programs.up:up", "Run everything in the foreground. Stop it with Ctrl-C."),
    "api": ("programs.api:api", "Serve the API until stopped."),
    "worker": ("programs.worker:worker", "Run jobs until stopped."),
    "worker list": ("steering.workers:show_list", "List the workers that run, the newest first."),
    "worker drain": ("steering.workers:drain", "Let a worker finish the jobs that it runs, and stop."),
    "scheduler": ("programs.scheduler:scheduler", "Run the scheduler until stopped."),
    "agent": (
        "programs.agent:agent",
        "Run this host's jobs until stopped, with the commands that its allow-list names.",
    ),
    "migrate": ("migrate:migrate", "Apply the migrations that are missing."),
    "backup": ("backup:backup", "Back up the database, the keys and the copies of the checkpoints."),
    "restore": ("backup:restore", "Restore a backup into a new ATLAS_HOME, or into the database of DATABASE_URL."),
    "doctor": (
        "doctor:doctor",
        "Check this machine and the database, or the API, and say how to correct what is wrong.",
    ),
    "database-url": (
        "connection.database_url:database_url",
        "Print the address of the database, for programs that connect to it themselves.",
    ),
    "status": ("steering.status:status", "Show the gate, the engine, the queue, the workers."),
    "online": ("steering.status:online", "Allow jobs to start."),
    "offline": ("steering.status:offline", "Start no more jobs."),
    "pause": ("steering.pauses:pause", "Pause a tenant, type, definition, workflow, host or trigger."),
    "resume": ("steering.pauses:resume", "End a pause."),
    "pauses": ("steering.pauses:pauses", "Show what is paused."),
    "engine": ("steering.engine:app", "Switch the engine of workflows."),
    "usage": ("steering.usage:usage", "Show finished attempts, their outcomes, times and cost, by job type."),
    "insights": (
        "steering.insights:insights",
        "Show usage, outcomes, times and cost over days, by job type or tenant.",
    ),
    "bench": ("bench:bench", "Measure Atlas on this machine, beside plain SQL and comparable queues."),
    "enqueue": ("jobs.enqueue:enqueue_job", "Enqueue a job."),
    "audit": ("audit:app", "The audit log of all changes: read it, verify it, prove it."),
    "explain": (
        "jobs.explain:explain",
        "Explain why a job, a run, a trigger or a worker does nothing, and the way out.",
    ),
    "jobs": ("jobs.jobs:app", "Show and watch jobs; cancel, retry and delete them."),
    "group": ("jobs.group:app", "Groups of jobs: list, show, cancel and retry them."),
    "workflow": ("workflow:app", "Request workflow runs, inspect and control them."),
    "outbox": ("jobs.outbox:app", "The mails that were written as files instead of being sent."),
    "effects": ("effects:app", "Effects: calls of providers, and their outcomes."),
    "trigger": ("trigger:app", "Start jobs and workflows on a schedule or on events."),
    "event": ("jobs.event:app", "Publish events, and list them."),
    "recurring": ("jobs.recurring:app", "The functions that programs run at intervals, and their runs."),
    "webhooks": ("steering.webhooks:app", "Send events to the servers of tenants."),
    "hooks": ("steering.hooks:app", "Receive signed messages as events."),
    "tenant": ("access.tenant:app", "The tenants of this installation."),
    "token": ("access.token:app", "The credentials of people and programs."),
    "session": ("access.session:app", "The people who are signed in to the web pages."),
    "sign-in": (
        "access.sign_in:sign_in",
        "Print a link that signs an operator in to the web pages, once within 15 minutes.",
    ),
    "grant": ("access.grant:app", "What logins of other applications may enqueue."),
    "host": ("steering.host:app", "Machines that fetch their own jobs over HTTP."),
    "definition": ("jobs.definition:app", "The programs that command jobs may run."),
}


# Groups are found in the singular and in the plural.
GROUPS = (
    *("jobs", "group", "workflow", "trigger", "event", "webhooks", "hooks"),
    *("tenant", "token", "session", "grant", "host", "definition", "worker", "effects"),
)
ALIASES = {name.removesuffix("s") if name.endswith("s") else f"{name}s": name for name in GROUPS}


class _PlainOptions:
    """Options in the help of a command: a word for the value of each, none for a switch."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, which the help and the parser use."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class beside it
        for parameter in parameters:
            if parameter.param_type_name == "option" and parameter.metavar is None:
                parameter.metavar = "" if parameter.is_flag else _value_name(parameter, ctx)
            elif parameter.param_type_name == "argument":
                # The name says it. Typer shows the type beside it.
                parameter.display_type = lambda ctx: ""
        return parameters


# What Typer calls the type of a value, and what people call it.
VALUE_NAMES = {"str": "TEXT", "list[str]": "TEXT", "int": "N", "int range": "N", "float": "N", "float range": "N"}


def _value_name(option: Any, ctx: Any) -> str | None:
    """A word for the value of an option. None, which leaves it to Typer, in a version without names from Python."""
    if not hasattr(option, "display_type"):
        return None
    value_name = option.display_type(ctx).strip("<>")
    return VALUE_NAMES.get(value_name, "PATH" if "path" in value_name.lower() else value_name)


class PlainCommand(_PlainOptions, TyperCommand):
    """A command whose help shows no types of Python."""


class PlainGroup(_PlainOptions, TyperGroup):
    """The same for a group."""


class CommandTable(PlainGroup):
    """The subcommands of `atlas`: their names and sentences, and the one that runs whole."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported."""
        name, _, rest = super().resolve_command(ctx, [canonical(args[0]), *args[1:]])
        # The name of a program may begin that of a command: `worker list`.
        if rest and f"{name} {rest[0]}" in COMMANDS:
            name, rest = f"{name} {rest[0]}", rest[1:]
        return name, None if name is None else load_command(name), rest


class ModuleGroup(PlainGroup):
    """Subcommands in several modules of a package: only the module of the one that runs is imported; for help all."""

    def __init__(self, package: str, places: Mapping[str, str], *, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True)
        commands: Any = _CommandPlaces({name: f"{package}.{place}" for name, place in places.items()})
        self.commands = commands

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the subcommands, which need no import."""
        return list(self.commands)


class _CommandPlaces(Mapping[str, TyperCommand | TyperGroup]):
    """Commands by their names, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        return _load(self._places[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def canonical(name: str) -> str:
    """The name of a command by which the table and the help have it."""
    return ALIASES.get(name, name)


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command."""
    return _load(f"atlas.cli.{COMMANDS[name][0]}", name)


@cache
def _load(place: str, name: str) -> TyperCommand | TyperGroup:
    """Import a command from its place, `module:attribute`."""
    module, _, attribute = place.partition(":")
    loaded = getattr(import_module(module), attribute)
    if isinstance(loaded, TyperGroup):
        command: Any = loaded
    elif isinstance(loaded, typer.Typer):
        _use_plain_options(loaded)
        command = typer.main.get_command(loaded)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name, cls=PlainCommand)(loaded)
        command = typer.main.get_command(single)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name = name
    return command


def _use_plain_options(group: typer.Typer) -> None:
    group.info.cls = PlainGroup
    for command in group.registered_commands:
        command.cls = PlainCommand
    for inner in group.registered_groups:
        inner.cls = PlainGroup
        assert inner.typer_instance is not None
        _use_plain_options(inner.typer_instance)
