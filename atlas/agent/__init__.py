"""A host's program: fetches the host's jobs over HTTP and runs the commands that the host allows. Needs httpx alone."""

from atlas.agent.agent import Agent
from atlas.agent.commands import AllowedCommands

__all__ = ["Agent", "AllowedCommands"]
