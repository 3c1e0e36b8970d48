"""The log of one attempt: what its handler logged, bounded, to be kept with the attempt."""

import threading
import traceback
from collections import deque
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from itertools import count
from logging import LogRecord
from typing import Any

from atlas.logs import JOB_FACTS, get_logger
from atlas.programs.capture import Capture

# How many lines of one attempt the log of its worker gets.
MAX_LINES = 10_000
# How many lines wait while a thread that keeps one is off its processor. More than that, and the oldest are lost.
MAX_WAITING = 1_000

log = get_logger("worker")

# What every line of an attempt would repeat, and what the beginning of a kept line says.
_LEFT_OUT = {*JOB_FACTS, "correlation_id", "event", "exc_info", "exception", "level", "timestamp", "_logger", "_name"}


class AttemptLog:
    """Keeps the first 16 KiB and the last 48 KiB of what is logged.

    After `MAX_LINES` lines the log of the worker gets no more of them: formatting and writing one takes 100 µs, and
    300,000 of them in a row would cost the worker its lease.

    The handler's threads and tasks log at the same time, and none waits for another, which may be off its processor for
    long: a line is put in a queue, and whoever finds no one keeping lines keeps all that are in it.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.capture = Capture()
        self._facts = facts
        self._lines = 0
        self._numbers = count(1)
        self._waiting: deque[bytes] = deque(maxlen=MAX_WAITING)
        self._keeping = threading.Lock()

    @property
    def is_over(self) -> bool:
        """True when the log of the worker gets no more of its lines."""
        return self._lines > MAX_LINES

    def add_event(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Keep a line of structlog. This is the first of the logger's processors."""
        # Imported here: commands load this module, and most of them log nothing.
        import structlog

        entry = structlog.processors.format_exc_info(None, method, {**event}) if event.get("exc_info") else event
        self._add(method, _text_of(entry))
        if self.is_over:
            raise structlog.DropEvent
        return event

    def add_record(self, record: LogRecord) -> None:
        """Keep a line of the standard library's logging."""
        if isinstance(record.msg, dict):
            self._add(record.levelname.lower(), _text_of(record.msg))
            return
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        self._add(record.levelname.lower(), text)

    def _add(self, level: str, text: str) -> None:
        self._lines = next(self._numbers)
        if self._lines == MAX_LINES + 1:
            message = "a handler logs too much; further lines of this attempt are kept with it alone, shortened"
            log.warning(message, **self._facts, max_lines=MAX_LINES)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._waiting.append(f"{now} {level} {text}\n".encode("utf-8", "replace"))
        self.keep_waiting()

    def keep_waiting(self) -> None:
        """Keep the lines that wait, unless another thread does so now."""
        while self._waiting and self._keeping.acquire(blocking=False):
            try:
                while self._waiting:
                    self.capture.feed(self._waiting.popleft())
            finally:
                self._keeping.release()


def _text_of(event: MutableMapping[str, Any]) -> str:
    """An event of structlog as its message, its values and its stack."""
    values = "".join(f" {name}={value}" for name, value in event.items() if name not in _LEFT_OUT)
    stack = f"\n{event['exception']}" if event.get("exception") else ""
    return f"{event.get('event', '')}{values}{stack}"
