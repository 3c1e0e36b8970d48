"""What a worker logs about its jobs, and what handlers log: kept with the attempt, bounded, without secrets."""

import asyncio
import logging
import threading
import time
from typing import Annotated, Any, ClassVar

import pytest
import structlog
from pydantic import BaseModel, Field

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import PermanentError, Snooze
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.logs import configure_logs
from atlas.workers.watchdog.loop_watchdog import LOOK_SECONDS, Reading, blocked_between
from atlas.workers.workflows import settle_intents
from tests.support import DANA, until

pytestmark = pytest.mark.usefixtures("default_logs")

STRAYS: list[asyncio.Task[None]] = []


@pytest.fixture
def lines(monkeypatch, default_logs):
    """What the worker logs at info."""
    monkeypatch.setattr("atlas.workers.attempts.attempt_report.frequent_logger", frequent)
    for module in ("attempts.attempt_report", "worker", "watchdog.loop_watchdog"):
        monkeypatch.setattr(f"atlas.workers.{module}.log", structlog.get_logger("worker"))
    worker = logging.getLogger("worker")
    before = worker.level
    worker.setLevel(logging.INFO)
    with structlog.testing.capture_logs() as found:
        yield found
    worker.setLevel(before)


def frequent(name):
    """As it is where the lines go elsewhere than to stderr as JSON."""
    return lambda event, facts: structlog.get_logger(name).info(event, **facts)


@pytest.fixture
def at_info(default_logs):
    """The standard library's logging lets info through."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


@job("logs.flood", max_retries=0)
async def flood(input: dict[str, Any], ctx: JobContext) -> None:
    """Logs without end, by both kinds of loggers."""
    for n in range(input["lines"] // 2):
        ctx.log.info("line", n=n)
        logging.getLogger("shop").info("line %d", n)


@job("logs.quiet")
async def quiet(input: dict[str, Any]) -> dict[str, int]:
    return {"n": 1}


@job("logs.fails", max_retries=0)
async def fails(input: dict[str, Any], ctx: JobContext) -> None:
    ctx.log.info("about to fail")
    try:
        raise KeyError("paper")
    except KeyError as error:
        if input.get("permanent"):
            raise PermanentError("There is no paper.") from error
        raise


@job("logs.talks")
async def talks(input: dict[str, Any], ctx: JobContext) -> dict[str, int]:
    ctx.log.info("reading", month=3)
    logging.getLogger("shop.reports").info("page %s", 7)
    await asyncio.gather(talk_aside())
    await asyncio.to_thread(logging.getLogger("shop.reports").info, "from a thread")
    if input.get("snoozes") and ctx.attempt == 1:
        raise Snooze(0)
    return {"pages": 12}


async def talk_aside() -> None:
    structlog.wrap_logger(logging.getLogger("shop.structured"), processors=[as_record]).info("aside", page=8)


def as_record(_logger, _name, event):
    """As structlog hands its events to the standard library when Atlas's programs set up the logs."""
    return ((dict(event),), {})


@job("logs.talks_plain")
def talks_plain(input: dict[str, Any], ctx: JobContext) -> None:
    ctx.log.warning("plain", n=input["n"])
    logging.getLogger("shop").info("beside")


@job("logs.floods")
async def floods(input: dict[str, Any], ctx: JobContext) -> None:
    for n in range(3000):
        ctx.log.info("x" * 100, n=n)


class Login(BaseModel):
    password: Annotated[str, Field(json_schema_extra={"x-secret": True})]


@job("logs.leaks", max_retries=0)
async def leaks(input: Login, ctx: JobContext) -> None:
    ctx.log.info("signing in", password=input.password)
    logging.getLogger("shop").info("with %r", input.password)
    if input.password.endswith("raise"):
        raise PermanentError("no entry") from ValueError(input.password)


class SlowText:
    """Formatted when another job has logged meanwhile, or after a time in which any can."""

    inside, released = threading.Event(), threading.Event()
    in_time: ClassVar[list[bool]] = []

    def __str__(self) -> str:
        self.inside.set()
        self.in_time.append(self.released.wait(20))
        self.released.clear()
        return "slow"

    __repr__ = __str__


@job("logs.slow_in_a_thread")
def slow_in_a_thread(input: dict[str, Any], ctx: JobContext) -> None:
    if input["by"] == "ctx":
        ctx.log.info("slowly", what=SlowText())
    else:
        logging.getLogger("shop").info("%s", SlowText())


@job("logs.beside")
async def beside(input: dict[str, Any], ctx: JobContext) -> None:
    # It is formatted for the attempt, and for the log of the worker.
    for _ in range(2):
        await until(SlowText.inside.is_set)
        SlowText.inside.clear()
        logging.getLogger("shop").info("beside")
        ctx.log.info("beside")
        SlowText.released.set()


@job("logs.strays")
async def strays(input: dict[str, Any]) -> None:
    async def speak_later() -> None:
        await asyncio.sleep(0.2)
        logging.getLogger("shop").warning("too late")

    STRAYS.append(asyncio.create_task(speak_later()))


@job("logs.sleeps")
async def sleeps(input: dict[str, Any]) -> None:
    await asyncio.sleep(0.5)


@job("logs.blocks_in_a_task")
async def blocks_in_a_task(input: dict[str, Any]) -> None:
    async def compute() -> None:
        until = time.thread_time() + 1.5
        while time.thread_time() < until:
            pass

    await asyncio.gather(compute())


@workflow("logs.waits")
async def waits(run, input: dict[str, Any]) -> None:
    logging.getLogger("shop").warning("before the wait")
    await run.sleep(0.01)


async def test_a_worker_logs_its_start_and_one_line_for_each_attempt(given, drain, lines):
    await given("logs.quiet", {}, {})
    await drain("logs.quiet", concurrency=3)
    [started] = [line for line in lines if line["event"] == "worker started"]
    assert (started["job_types"], started["concurrency"]) == (["logs.quiet"], 3)
    assert "@" not in started["database"]
    ended = [line for line in lines if line["event"] == "attempt ended"]
    assert len(ended) == 2
    facts = {"job_type": "logs.quiet", "definition_key": "logs.quiet", "attempt_no": 1, "outcome": "succeeded"}
    assert ended[0].items() >= {**facts, "tenant_id": str(SYSTEM_TENANT), "log_level": "info"}.items()
    assert ended[0]["duration_ms"] >= 0


async def test_no_line_is_made_where_the_level_is_above_info(given, drain, lines):
    logging.getLogger("worker").setLevel(logging.WARNING)
    await given("logs.quiet")
    await drain("logs.quiet")
    assert [line for line in lines if line["event"] == "attempt ended"] == []


async def test_a_failed_attempt_leaves_its_stack_in_the_log_and_in_its_record(pool, given, drain, lines):
    [job_id] = await given("logs.fails")
    await drain("logs.fails")
    [line] = [line for line in lines if line["event"] == "attempt failed"]
    assert (line["outcome"], line["log_level"], line["reason"]) == ("failed", "warning", "KeyError: 'paper'")
    assert 'raise KeyError("paper")' in line["exception"]
    assert [line["event"] for line in lines if "attempt" in line["event"]] == ["attempt failed"]
    [attempt] = await list_attempts(pool, job_id)
    assert attempt["error_text"] == line["exception"]
    assert "about to fail" in attempt["log_tail"]


async def test_an_error_of_atlas_that_a_handler_raises_from_another_keeps_the_stack_of_its_cause(pool, given, drain):
    [job_id] = await given("logs.fails", {"permanent": True})
    await drain("logs.fails")
    [attempt] = await list_attempts(pool, job_id)
    assert attempt["error_text"].startswith("There is no paper.\n\nTraceback")
    assert 'raise KeyError("paper")' in attempt["error_text"]


async def test_what_a_handler_logs_is_kept_with_its_attempt(pool, given, drain, at_info):
    [job_id] = await given("logs.talks")
    await drain("logs.talks")
    [attempt] = await list_attempts(pool, job_id)
    kept = [line.split(" ", 1)[1] for line in attempt["log_tail"].splitlines()]
    assert kept == [
        "info reading month=3",
        "info shop.reports: page 7",
        "info aside page=8",
        "info shop.reports: from a thread",
    ]
    assert (attempt["status"], attempt["result"]) == ("succeeded", {"pages": 12})


async def test_what_a_plain_function_logs_is_kept_too(pool, given, drain, at_info):
    first, second = await given("logs.talks_plain", {"n": 1}, {"n": 2})
    await drain("logs.talks_plain")
    for n, job_id in ((1, first), (2, second)):
        [attempt] = await list_attempts(pool, job_id)
        kept = [line.split(" ", 1)[1] for line in attempt["log_tail"].splitlines()]
        assert kept == [f"warning plain n={n}", "info shop: beside"]


async def test_the_log_of_a_snoozed_attempt_is_kept(pool, given, drain):
    [job_id] = await given("logs.talks", {"snoozes": True})
    await drain("logs.talks")
    attempts = await list_attempts(pool, job_id)
    assert [attempt["outcome"] for attempt in attempts] == ["snoozed", None]
    assert all("reading month=3" in attempt["log_tail"] for attempt in attempts)


async def test_a_handler_that_logs_nothing_has_no_row_of_its_own(pool, given, drain):
    await given("logs.quiet")
    await drain("logs.quiet")
    assert await pool.fetchval("select count(*) from atlas.job_attempts") == 0


async def test_a_flood_is_kept_by_its_beginning_and_its_end(pool, given, drain):
    [job_id] = await given("logs.floods")
    await drain("logs.floods")
    [attempt] = await list_attempts(pool, job_id)
    assert len(attempt["log_tail"]) < 66_000
    assert "bytes left out]" in attempt["log_tail"]
    assert " n=0\n" in attempt["log_tail"]
    assert attempt["log_tail"].endswith(" n=2999\n")


@pytest.mark.parametrize("password", ["sesame-canary", "sesame-canary-raise"])
async def test_secrets_are_taken_out_of_logs_and_stacks(pool, given, drain, at_info, password):
    use_secret_key(SecretKey(bytes(range(32))))
    try:
        [job_id] = await given("logs.leaks", {"password": password})
        await drain("logs.leaks")
    finally:
        use_secret_key(None)
    [attempt] = await list_attempts(pool, job_id)
    assert "sesame" not in f"{attempt}"
    assert attempt["log_tail"].count("[secret ") == 2


async def test_a_task_that_outlasts_its_job_does_not_log_to_the_next(pool, given, drain):
    await given("logs.strays")
    await drain("logs.strays", concurrency=1)
    [job_id] = await given("logs.sleeps")
    await drain("logs.sleeps", concurrency=1)
    await asyncio.gather(*STRAYS)
    assert (await list_attempts(pool, job_id))[0]["log_tail"] is None


async def test_what_a_run_logs_before_it_waits_is_kept(pool, drain):
    async with pool.acquire() as conn:
        run_id = await request_workflow(conn, SYSTEM_TENANT, "logs.waits", {}, DANA)
    await settle_intents(pool)
    await drain("ENGINE_RUN")
    first, *_ = await list_attempts(pool, run_id)
    assert (first["outcome"], "before the wait" in first["log_tail"]) == ("snoozed", True)


async def test_a_handler_that_blocks_is_named_with_its_job(given, drain, lines):
    [job_id] = await given("test.blocks")
    await drain("test.blocks")
    [line] = [line for line in lines if "blocks the event loop" in line["event"]]
    assert (line["job_type"], line["job_id"]) == ("test.blocks", str(job_id))


@pytest.mark.skipif("sys.version_info < (3, 12)", reason="before 3.12 a task does not tell its context")
async def test_a_task_of_a_handler_that_blocks_is_named_too(given, drain, lines):
    await given("logs.blocks_in_a_task")
    await drain("logs.blocks_in_a_task")
    assert [line["job_type"] for line in lines if "blocks the event loop" in line["event"]] == ["logs.blocks_in_a_task"]


@pytest.mark.parametrize(
    ("ran", "waited", "passed", "blocked"),
    [
        (0.0, 0.0, LOOK_SECONDS, LOOK_SECONDS),  # asleep in a call that blocks
        (LOOK_SECONDS, 0.0, LOOK_SECONDS, LOOK_SECONDS),  # computing
        (0.02, 0.18, LOOK_SECONDS, 0.02),  # a busy machine: it waited for a processor
        (0.0, 0.0, 60.0, 2 * LOOK_SECONDS),  # the whole process stood still
        (3.0, 0.0, 3.0, 3.0),  # computing in a library that lets nothing else run
    ],
)
def test_only_the_time_that_a_handler_takes_counts_as_blocked(ran, waited, passed, blocked):
    assert blocked_between(Reading(0, 0, 0), Reading(passed, ran, waited)) == pytest.approx(blocked)


async def test_a_handler_that_logs_without_end_floods_neither_the_log_nor_the_event_loop(
    pool, given, drain, at_info, lines, monkeypatch
):
    monkeypatch.setattr("atlas.engine.jobs.attempts.attempt_log.MAX_LINES", 100)
    monkeypatch.setattr("atlas.engine.jobs.attempts.attempt_log.log", structlog.get_logger("worker"))
    written = Written()
    logging.getLogger().addHandler(written)
    try:
        [flooded], [after] = await given("logs.flood", {"lines": 2000}), await given("logs.flood", {"lines": 50})
        await drain("logs.flood", concurrency=1)
    finally:
        logging.getLogger().removeHandler(written)
    # Every second line is one of `ctx.log`, which the tests do not send to the standard library's logging.
    assert len(written.lines) == (100 + 50) // 2
    warning = [line for line in lines if "logs too much" in line["event"]]
    assert [one["job_id"] for one in warning] == [str(flooded)]
    assert len([line for line in lines if line["event"] == "line"]) == (100 + 50) // 2
    [attempt] = await list_attempts(pool, flooded)
    assert "n=0\n" in attempt["log_tail"]
    assert attempt["log_tail"].rstrip().endswith("line 999")
    assert "line 24" in (await list_attempts(pool, after))[0]["log_tail"]


@pytest.mark.parametrize("by", ["ctx", "logging"])
async def test_the_event_loop_logs_while_the_thread_of_a_handler_formats_a_line(pool, given, drain, default_logs, by):
    """As a thread does that is off its processor: the line is done only when the event loop has logged its own."""
    for event in (SlowText.inside, SlowText.released, SlowText.in_time):
        event.clear()
    root = logging.getLogger()
    before = root.handlers[:]
    configure_logs("info", json=True)
    try:
        [slow], [fast] = await given("logs.slow_in_a_thread", {"by": by}), await given("logs.beside", {})
        await drain("logs.slow_in_a_thread", "logs.beside", concurrency=2)
    finally:
        root.handlers[:] = before
    assert SlowText.in_time == [True, True]
    assert "slow" in (await list_attempts(pool, slow))[0]["log_tail"]
    assert (await list_attempts(pool, fast))[0]["log_tail"].count("beside") == 4


class Written(logging.Handler):
    """What the log of the worker gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "shop":
            self.lines.append(record.getMessage())
