"""`python -m atlas.agent`: the agent, on a machine that has httpx and no other dependency of Atlas."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from atlas.agent.agent import Agent
from atlas.agent.commands import AllowedCommands
from atlas.errors import AtlasError


def main() -> None:
    """Serve until a signal. Exit status 0: stopped; 1: refused, with the reason."""
    options = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(_serve(options))
    except AtlasError as error:
        sys.exit(f"error: {error}")


async def _serve(options: argparse.Namespace) -> None:
    agent = Agent(
        options.url, options.token, AllowedCommands.load(options.commands), host=options.host, grace=options.grace
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, agent.stop)
    await agent.run()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m atlas.agent", description="Run this host's jobs until stopped.")
    url, token = os.environ.get("ATLAS_URL"), os.environ.get("ATLAS_TOKEN")
    parser.add_argument("--url", default=url, required=not url, help="the API's address; ATLAS_URL if not given")
    parser.add_argument("--token", default=token, required=not token, help="a host's token; better in ATLAS_TOKEN")
    parser.add_argument("--commands", type=Path, required=True, help="the allow-list, a JSON file")
    parser.add_argument("--host", help="the host's name or id, if the token is valid for several")
    parser.add_argument("--grace", type=float, default=25.0, help="seconds for a running command when stopped")
    return parser.parse_args()


if __name__ == "__main__":
    main()
