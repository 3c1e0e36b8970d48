"""The agent of a host: fetches its jobs over HTTP and runs the commands that the host allows. Needs only httpx."""

from atlas.agent.agent import Agent
from atlas.agent.commands import AllowedCommands

__all__ = ["Agent", "AllowedCommands"]
