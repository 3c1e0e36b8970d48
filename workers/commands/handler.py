"""The handler of every command job: checks the input, fills the template, runs the program, returns its output."""

import asyncio
from typing import Any

import asyncpg
import orjson

from atlas.db.pool import UNREACHABLE
from atlas.engine.commands.active_definitions import load_active_definition
from atlas.engine.commands.argv import Facts, fill_argv
from atlas.engine.commands.environment import fill_env, inherited_secrets, read_environment
from atlas.engine.commands.spec import DefinitionSpec
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.verdicts import JobTimeout, PermanentError, Snooze
from atlas.engine.schemas import require_fit
from atlas.engine.secrets.redact import Redactor
from atlas.errors import AtlasError, InvalidInput
from atlas.logs import redact_logs
from atlas.programs.runner import Order, ProgramNotStarted, ProgramResult, RunningProgram, start
from atlas.programs.terminal_text import ending, last_line, plain
from atlas.tracing import current_traceparent, is_traceparent
from atlas.workers.commands.output import stored_text_of

# How long a job waits whose definition was disabled after it was claimed.
DISABLED_SECONDS = 30.0


class CommandFailed(AtlasError):
    """The program did not end with exit status 0."""


async def run_command(input: dict[str, Any], ctx: AttemptContext) -> Any:
    """Run one attempt of a command job. The definition is read each time, so that an edit applies immediately."""
    active = await load_active_definition(ctx.pool, ctx.job.job_type, ctx.tenant_id)
    if active is None:
        raise Snooze(DISABLED_SECONDS, f"The definition {ctx.job.job_type} is disabled.")
    definition, tenant_slug = active
    order = _order(definition.spec, input, Facts(ctx.tenant_id, tenant_slug, ctx.job_id), ctx)
    ctx.notes.detail["result"] = {"argv": list(order.argv)}
    try:
        result = await _result(await _start(order, ctx), ctx)
    except ProgramNotStarted as error:
        raise CommandFailed(
            f"{order.argv[0]} could not be started: {error.message}.",
            remedy="Check that the program is on the worker's machine, and that the worker's user may execute it.",
        ) from error
    return _outcome(result, ctx.notes.detail, order.time_limit)


async def _start(order: Order, ctx: AttemptContext) -> RunningProgram:
    """Start the program, unless the gate was closed since the job was. A gate that closes now waits until it runs."""
    right = ctx.start_right
    await right.wait()
    right.begin()
    try:
        run = await start(ctx.job_id, order, lambda percent, message: _progress(ctx, percent, message))
    except BaseException:
        right.begun()
        raise
    run.begun.add_done_callback(lambda _: right.begun())
    return run


def _order(spec: DefinitionSpec, input: dict[str, Any], facts: Facts, ctx: AttemptContext) -> Order:
    """What to run. An input that does not match the schema fails for good: it would not match next time."""
    inherited = read_environment()
    try:
        require_fit(spec.arg_schema, input, what=f"The input of {spec.key}")
        program, *arguments = fill_argv(spec.argv, input, facts)
        env = {**_trace(ctx), **fill_env(spec.env, input, facts, inherited)}
    except InvalidInput as error:
        raise PermanentError(error.message, remedy=error.remedy) from error
    _redact(ctx, inherited_secrets(spec.env, inherited))
    limits = spec.limits.model_dump()
    limits["cpu_seconds"] = spec.limits.cpu_seconds or spec.timeout_seconds
    return Order(
        [spec.programs.get(program, program), *arguments],
        env,
        limits,
        float(ctx.job.timeout_seconds or spec.timeout_seconds),
    )


def _trace(ctx: AttemptContext) -> dict[str, str]:
    """The program's place in the trace of its job, if there is one."""
    place = current_traceparent() or ctx.job.correlation_id
    return {"TRACEPARENT": place} if place is not None and is_traceparent(place) else {}


def _redact(ctx: AttemptContext, values: list[str]) -> None:
    if not values:
        return
    if ctx.redactor is None:
        ctx.redactor = Redactor({})
        redact_logs(ctx.redactor.text)
    ctx.redactor.learn(dict.fromkeys(values, "of the worker's environment"))


async def _result(run: RunningProgram, ctx: AttemptContext) -> ProgramResult:
    try:
        result = await run.wait()
    except asyncio.CancelledError:
        # Timed out, canceled, or the worker stops: the program ends first, and its output is kept.
        try:
            _note(await run.stop(), ctx)
        except AtlasError as error:
            ctx.log.warning("program that was stopped left no result", reason=error.message)
        raise
    _note(result, ctx)
    return result


def _note(result: ProgramResult, ctx: AttemptContext) -> None:
    detail = ctx.notes.detail
    detail["pid"], detail["exit_code"] = result.pid, result.exit_code
    detail["stdout_tail"] = stored_text_of(result.stdout, ctx.redactor)
    detail["stderr_tail"] = stored_text_of(result.stderr, ctx.redactor)
    detail["result"] |= {
        "cpu_ms": result.cpu_ms,
        "stdout_bytes": result.stdout.total,
        "stderr_bytes": result.stderr.total,
    }


def _outcome(result: ProgramResult, detail: dict[str, Any], time_limit: float) -> Any:
    if result.timed_out:
        raise JobTimeout(f"The program did not end within {time_limit:g} s.", remedy="Raise the definition's timeout.")
    if result.exit_code != 0:
        message = last_line(detail["stderr_tail"]) or last_line(detail["stdout_tail"])
        raise CommandFailed(f"The program {ending(result.exit_code)}{': ' + message if message else '.'}")
    if result.output is None and not result.overlong:
        return None
    return _parsed(result)


def _parsed(result: ProgramResult) -> Any:
    """The JSON of the last `::output` line. The work is done, so a wrong line is no reason to repeat it."""
    if result.overlong or result.output is None:
        raise PermanentError("The program succeeded, but a line for Atlas was longer than 256 KiB.")
    try:
        return orjson.loads(result.output)
    except orjson.JSONDecodeError as error:
        raise PermanentError(f"The program succeeded, but its ::output line is not JSON: {error}.") from error


async def _progress(ctx: AttemptContext, percent: float, message: str | None) -> None:
    text = None if message is None else plain(message)
    if text is not None and ctx.redactor is not None:
        # The supervisor cuts long messages, also within a secret.
        text = ctx.redactor.cut(text, at_end=True)
    try:
        await ctx.progress(percent, text)
    except (*UNREACHABLE, asyncpg.PostgresError) as error:
        # The program goes on without it.
        ctx.log.warning("progress could not be stored", reason=str(error) or type(error).__name__)
