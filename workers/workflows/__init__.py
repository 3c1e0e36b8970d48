"""Executes workflow runs: the ENGINE_RUN handler, and the loop that turns intents into runs."""

from atlas.workers.workflows.handler import engine_run
from atlas.workers.workflows.loop import run_engine_loop, settle_intents

__all__ = ["engine_run", "run_engine_loop", "settle_intents"]
