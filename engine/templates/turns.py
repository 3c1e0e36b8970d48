"""Compiles a template beside other tasks: all that one may hold takes up to a second, the first time."""

import asyncio
import time
from typing import Any

from atlas.engine.templates.expressions import compile_one_by_one

MAX_HOLD_SECONDS = 0.02


async def compile_in_turns(template: Any) -> None:
    """Compile the expressions of a template, and let other tasks run whenever the loop has been held for 20 ms."""
    began = time.monotonic()
    for _ in compile_one_by_one(template):
        if time.monotonic() - began > MAX_HOLD_SECONDS:
            await asyncio.sleep(0)
            began = time.monotonic()
