"""One job from its command to its result."""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from atlas.agent.calls import AssignedJob, Result
from atlas.agent.commands import AllowedCommands
from atlas.agent.lease import Lease, Why
from atlas.errors import AtlasError
from atlas.programs.runner import Order, ProgramResult, RunningProgram, Stream, start
from atlas.programs.terminal_text import ending, plain

# For jobs that bring no limit of their own.
USUAL_SECONDS = 3600.0
# What is kept of the output, in characters.
TAIL = 4000
TAIL_OF_ERROR = 1500
LONGEST_LAST_LINE = 200
# What a command gets of the agent's environment. The token is not in it.
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


async def carry_out(job: AssignedJob, commands: AllowedCommands, lease: Lease) -> Result | None:
    """Run the job's command to its end and say how it went; None if the job is no longer the host's."""
    began = time.monotonic()
    if not await lease.is_held():
        why = lease.over.result()
        return None if why is Why.LOST else Result("failed", 0, error=f"The command was not begun, for {why.value}.")
    time_limit = float(job.timeout_seconds or USUAL_SECONDS)
    alarm = asyncio.get_running_loop().call_later(time_limit, lease.end, Why.TIMEOUT)
    try:
        argv = commands.argv(job.type, job.payload, job.facts)
        order = Order(argv, _environment(job), {}, time_limit, own_user=False)
        account = await _account(await start(job.id, order, lease.note), lease)
    except AtlasError as error:
        return Result("failed", _ms(began), error=str(error))
    except OSError as error:
        # No more processes, files or memory for now: the job's policy says when to try again.
        return Result("failed", _ms(began), error=f"The command could not be run: {error.strerror or error}.")
    finally:
        alarm.cancel()
    ended = lease.over.result() if lease.over.done() else None
    return None if ended is Why.LOST else _result(account, ended, _ms(began))


async def _account(run: RunningProgram, lease: Lease) -> ProgramResult:
    """What became of the command, which ends by itself or when there is a reason."""
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


def _result(account: ProgramResult, why: Why | None, duration_ms: int) -> Result:
    if account.exit_code == 0 and why is None:
        return Result("succeeded", duration_ms, _output(account))
    said = _tail(account.stderr) or _tail(account.stdout)
    words = f"The command was ended, for {why.value}." if why else f"The command {ending(account.exit_code)}"
    if why is None:
        # Atlas looks for secrets, and for pieces of them where a line begins or ends. So no piece stands within one.
        last = said.rpartition("\n")[2].strip()
        words += "." if not said else f": {last}" if len(last) <= LONGEST_LAST_LINE else ":"
    return Result("failed", duration_ms, error=f"{words}\n{said[-TAIL_OF_ERROR:]}".rstrip())


def _output(account: ProgramResult) -> Mapping[str, Any]:
    """What the last `::output` line says, or the end of what was printed. A line that says nothing undoes no work."""
    if account.output is None and not account.overlong:
        return {"exit_code": account.exit_code, "stdout_tail": _tail(account.stdout)}
    try:
        told = json.loads(account.output or "", parse_constant=_no_number)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and not account.overlong:
        return told
    return {"warning": "The ::output line is too long or not a JSON object.", "stdout_tail": _tail(account.stdout)}


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
