"""`atlas agent`: runs on a host and fetches the host's jobs over HTTP."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from atlas.agent import Agent, AllowedCommands
from atlas.cli.runtime import execute
from atlas.cli.terminal.output import Json, say
from atlas.errors import SettingsError
from atlas.settings import Settings


def agent(
    url: Annotated[str | None, typer.Option(help="The API's address; ATLAS_URL if not given.")] = None,
    token: Annotated[str | None, typer.Option(help="A host's token; better in ATLAS_TOKEN.")] = None,
    host: Annotated[str | None, typer.Option(help="Its name or id, if the token is for several hosts.")] = None,
    commands: Annotated[
        Path | None, typer.Option(help="The allow-list, a JSON file; agent-commands.json in ATLAS_HOME if not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Run this host's jobs until stopped, with the commands that its allow-list names."""

    async def work(settings: Settings) -> dict[str, int]:
        if settings.atlas_url is None or settings.atlas_token is None:
            raise SettingsError(
                "An agent needs the address of an Atlas and a host's token.",
                remedy="Give --url and --token, or set ATLAS_URL and ATLAS_TOKEN.",
            )
        allowed = AllowedCommands.load(commands or settings.home / "agent-commands.json")
        grace = settings.atlas_grace_seconds
        program = Agent(settings.atlas_url, settings.atlas_token, allowed, host=host, grace=grace)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, program.stop)
        await program.run()
        return dict(program.counts)

    counts = execute(work, atlas_url=url, atlas_token=token)
    summary = ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "no jobs"
    say({"stopped": True, "jobs": counts}, f"The agent has stopped: {summary}.", json=json)
