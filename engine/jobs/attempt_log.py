"""The log of one attempt: what its handler logged, bounded, to be kept with the attempt."""

import traceback
from collections.abc import MutableMapping
from datetime import UTC, datetime
from logging import LogRecord
from typing import Any

from atlas.logs import JOB_FACTS
from atlas.programs.capture import Capture

# What every line of an attempt would repeat, and what the beginning of a kept line says.
_LEFT_OUT = {*JOB_FACTS, "correlation_id", "event", "exc_info", "exception", "level", "timestamp", "_logger", "_name"}


class AttemptLog:
    """Keeps the first 16 KiB and the last 48 KiB of what is logged."""

    def __init__(self) -> None:
        self.capture = Capture()

    def add_event(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Keep a line of structlog. This is the first of the logger's processors."""
        # Imported here: commands load this module, and most of them log nothing.
        import structlog

        shown = structlog.processors.format_exc_info(None, method, {**event})
        self._add(method, _text_of(shown))
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
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.capture.feed(f"{now} {level} {text}\n".encode("utf-8", "replace"))


def _text_of(event: MutableMapping[str, Any]) -> str:
    """An event of structlog as its message, its values and its stack."""
    values = "".join(f" {name}={value}" for name, value in event.items() if name not in _LEFT_OUT)
    stack = f"\n{event['exception']}" if event.get("exception") else ""
    return f"{event.get('event', '')}{values}{stack}"
