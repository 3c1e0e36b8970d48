"""Runs the command of one job and builds its result."""

import asyncio
import json
import os
import time
from contextlib import suppress
from typing import Any

from atlas.agent.calls import AssignedJob, Result
from atlas.agent.commands import AllowedCommands
from atlas.agent.lease import Lease, StopReason
from atlas.errors import AtlasError
from atlas.programs.runner import Order, ProgramResult, RunningProgram, Stream, start
from atlas.programs.terminal_text import ending, plain

# For jobs without a timeout of their own.
DEFAULT_TIMEOUT = 3600.0
# What is kept of the output, in characters.
TAIL = 4000
TAIL_OF_ERROR = 1500
MAX_LAST_LINE_LENGTH = 200
# The part of the agent's environment that a command gets. The token is not in it.
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


async def run_job(job: AssignedJob, commands: AllowedCommands, lease: Lease) -> Result | None:
    """Run the job's command to its end and return the result; None if the lease was lost."""
    began = time.monotonic()
    if not await lease.is_held():
        reason = lease.over.result()
        if reason is StopReason.LOST:
            return None
        return Result("failed", 0, error=f"The command was not started: {reason.value}.")
    time_limit = float(job.timeout_seconds or DEFAULT_TIMEOUT)
    alarm = asyncio.get_running_loop().call_later(time_limit, lease.stop, StopReason.TIMEOUT)
    try:
        argv = commands.argv(job.type, job.payload, job.facts)
        order = Order(argv, _environment(job), {}, time_limit, own_user=False)
        ended = await _wait(await start(job.id, order, lease.note), lease)
    except AtlasError as error:
        return Result("failed", _ms(began), error=str(error))
    except OSError as error:
        # No more processes, files or memory for now: the job's retry policy says when to try again.
        return Result("failed", _ms(began), error=f"The command could not be run: {error.strerror or error}.")
    finally:
        alarm.cancel()
    stopped = lease.over.result() if lease.over.done() else None
    return None if stopped is StopReason.LOST else _result(ended, stopped, _ms(began))


async def _wait(run: RunningProgram, lease: Lease) -> ProgramResult:
    """The result of the command, which ends by itself or is stopped when there is a reason."""
    ended = asyncio.ensure_future(run.wait())
    ends: list[asyncio.Future[Any]] = [ended, lease.over]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return ended.result() if ended.done() else await run.stop()
    except asyncio.CancelledError:
        await run.stop()
        raise
    finally:
        ended.cancel()


def _result(program: ProgramResult, reason: StopReason | None, duration_ms: int) -> Result:
    if program.exit_code == 0 and reason is None:
        return Result("succeeded", duration_ms, _output(program))
    said = _tail(program.stderr) or _tail(program.stdout)
    message = (
        f"The command {ending(program.exit_code)}" if reason is None else f"The command was stopped: {reason.value}."
    )
    if reason is None:
        # Atlas redacts secrets, and pieces of them at the start or end of a line. So no line is cut within.
        last = said.rpartition("\n")[2].strip()
        message += "." if not said else f": {last}" if len(last) <= MAX_LAST_LINE_LENGTH else ":"
    return Result("failed", duration_ms, error=f"{message}\n{said[-TAIL_OF_ERROR:]}".rstrip())


def _output(program: ProgramResult) -> Any:
    """The JSON of the last `::output` line, or the end of stdout. A line that cannot be read does not fail the job."""
    if program.output is None and not program.overlong:
        return {"exit_code": program.exit_code, "stdout_tail": _tail(program.stdout)}
    if not program.overlong:
        with suppress(ValueError, RecursionError):
            return json.loads(program.output or "", parse_constant=_no_number)
    return {"warning": "The ::output line is too long or not JSON.", "stdout_tail": _tail(program.stdout)}


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _tail(stream: Stream) -> str:
    kept = stream.head + stream.tail if stream.left_out <= 0 else stream.tail.partition(b"\n")[2] or stream.tail
    return plain(kept.decode("utf-8", "replace")).strip()[-TAIL:]


def _environment(job: AssignedJob) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**kept, "ATLAS_JOB_ID": str(job.id), "ATLAS_JOB_RUN_ID": job.run_id}


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
