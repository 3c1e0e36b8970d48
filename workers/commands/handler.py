"""The handler of every command job: check the payload again, fill the template, run the program, tell the outcome."""

import asyncio
import os
from typing import Any

import asyncpg
import orjson

from atlas.db.pool import UNREACHABLE
from atlas.engine.commands.argv import Facts, fill_argv
from atlas.engine.commands.definitions import load_terms
from atlas.engine.commands.environment import fill_env, inherited_secrets
from atlas.engine.commands.spec import DefinitionSpec
from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.verdicts import JobTimeout, PermanentError, Snooze
from atlas.engine.schemas import require_fit
from atlas.engine.secrets.redact import Redactor
from atlas.errors import AtlasError, InvalidInput
from atlas.logs import clean_lines, get_logger
from atlas.programs.runner import Order, ProgramNotStarted, ProgramResult, RunningProgram, start
from atlas.programs.terminal_text import ending, last_line, plain
from atlas.workers.commands.output import shown

# A definition that was disabled after its job was claimed: the job waits, as those that were not claimed do.
DISABLED_SECONDS = 30.0

log = get_logger("command")


class CommandFailed(AtlasError):
    """The program did not end with exit status 0."""


async def run_command(payload: dict[str, Any], ctx: JobContext) -> dict[str, Any] | None:
    """Run one attempt of a command job. The definition is read anew, so that an edit holds from now on."""
    terms = await load_terms(ctx.pool, ctx.job.job_type, ctx.tenant_id)
    if terms is None:
        raise Snooze(DISABLED_SECONDS, f"The definition {ctx.job.job_type} is disabled.")
    definition, tenant_slug = terms
    order = _order(definition.spec, payload, Facts(ctx.tenant_id, tenant_slug, ctx.job_id), ctx)
    ctx.notes.detail["result"] = {"argv": list(order.argv)}
    try:
        run = await start(ctx.job_id, order, lambda percent, message: _progress(ctx, percent, message))
        account = await _account(run, ctx)
    except ProgramNotStarted as error:
        raise CommandFailed(
            f"{order.argv[0]} could not be started: {error.message}.",
            remedy="See that the program is on the worker's machine, and that the user it runs as may execute it.",
        ) from error
    return _outcome(account, ctx.notes.detail, order.time_limit)


def _order(spec: DefinitionSpec, payload: dict[str, Any], facts: Facts, ctx: JobContext) -> Order:
    """What to run. A payload that does not fit fails for good: it will not fit next time."""
    try:
        require_fit(spec.arg_schema, payload, what=f"The input of {spec.key}")
        argv = fill_argv(spec.argv, payload, facts)
        env = fill_env(spec.env, payload, facts, os.environ)
    except InvalidInput as error:
        raise PermanentError(error.message, remedy=error.remedy) from error
    _keep_from_telling(ctx, inherited_secrets(spec.env, os.environ))
    limits = spec.limits.model_dump()
    limits["cpu_seconds"] = spec.limits.cpu_seconds or spec.timeout_seconds
    return Order(argv, env, limits, float(ctx.job.timeout_seconds or spec.timeout_seconds))


def _keep_from_telling(ctx: JobContext, values: list[str]) -> None:
    if not values:
        return
    if ctx.redactor is None:
        ctx.redactor = Redactor({})
        clean_lines(ctx.redactor.text)
    ctx.redactor.learn(dict.fromkeys(values, "of the worker's environment"))


async def _account(run: RunningProgram, ctx: JobContext) -> ProgramResult:
    try:
        account = await run.wait()
    except asyncio.CancelledError:
        # Timed out, canceled, or the worker stops: the program ends first, and what it said is kept.
        try:
            _note(await run.stop(), ctx)
        except AtlasError as error:
            log.warning("a program that was stopped has left no account", job_id=str(ctx.job_id), reason=error.message)
        raise
    _note(account, ctx)
    return account


def _note(account: ProgramResult, ctx: JobContext) -> None:
    detail = ctx.notes.detail
    detail["pid"], detail["exit_code"] = account.pid, account.exit_code
    detail["stdout_tail"] = shown(account.stdout, ctx.redactor)
    detail["stderr_tail"] = shown(account.stderr, ctx.redactor)
    detail["result"] |= {
        "cpu_ms": account.cpu_ms,
        "stdout_bytes": account.stdout.total,
        "stderr_bytes": account.stderr.total,
    }


def _outcome(account: ProgramResult, detail: dict[str, Any], time_limit: float) -> dict[str, Any] | None:
    if account.timed_out:
        raise JobTimeout(f"The program did not end within {time_limit:g} s.", remedy="Raise the definition's timeout.")
    if account.exit_code != 0:
        words = last_line(detail["stderr_tail"]) or last_line(detail["stdout_tail"])
        raise CommandFailed(f"The program {ending(account.exit_code)}{': ' + words if words else '.'}")
    if account.output is None and not account.overlong:
        return None
    return _parsed(account)


def _parsed(account: ProgramResult) -> dict[str, Any]:
    """What the last `::output` line said. The work is done, so a line that says nothing is no reason to repeat it."""
    if account.overlong or account.output is None:
        raise PermanentError("The program ended well, but a line for Atlas was longer than 256 KiB.")
    try:
        output = orjson.loads(account.output)
    except orjson.JSONDecodeError as error:
        raise PermanentError(f"The program ended well, but its ::output line is not JSON: {error}.") from error
    if not isinstance(output, dict):
        raise PermanentError("The program ended well, but its ::output line is not a JSON object.")
    return output


async def _progress(ctx: JobContext, percent: float, message: str | None) -> None:
    words = None if message is None else plain(message)
    if words is not None and ctx.redactor is not None:
        # The supervisor cuts long messages, also within a secret.
        words = ctx.redactor.cut(words, at_end=True)
    try:
        await ctx.progress(percent, words)
    except (*UNREACHABLE, asyncpg.PostgresError) as error:
        # How far it is can wait; the program goes on.
        log.warning("progress could not be stored", job_id=str(ctx.job_id), reason=str(error) or type(error).__name__)
