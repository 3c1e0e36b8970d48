"""Log handlers that take no lock.

A handler of the standard library holds its lock while it formats and writes a line. A thread that logs may lose its
processor meanwhile, or wait for a reader of stderr. Every other thread that logs would wait for it, and so would the
event loop of a worker, whose lease expires if it waits for long.
"""

import logging
import os
import select
import stat
from asyncio import _get_running_loop
from contextlib import suppress
from typing import TextIO

log = logging.getLogger("atlas.logs")


class UnlockedHandler(logging.Handler):
    """A handler whose `emit` may be called by several threads at a time."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle the record, if the filters let it pass."""
        passed = self.filter(record)
        # Since 3.12 a filter may return another record.
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return bool(passed)


class StderrHandler(UnlockedHandler, logging.StreamHandler[TextIO]):
    """Writes each line by one call of the system, which keeps the lines of threads and processes apart.

    The event loop does not wait for a pipe that is full: the line is left out, and the next that is written says so.
    """

    _left_out = 0
    # The stream of which these are known: where it writes, how, and whether it may have no room.
    _known: TextIO | None = None
    _file: int | None = None
    _encoding = "utf-8"
    _poll: "select.poll | None" = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.write(self.format(record))
        except Exception:
            self.handleError(record)

    def write(self, line: str) -> None:
        """Write a line. One that cannot be written is left out."""
        if self.stream is not self._known:
            self._open()
        if self._file is None:
            with suppress(OSError, ValueError):
                self.stream.write(f"{line}\n")
                self.stream.flush()
            return
        if self._poll is not None and _get_running_loop() is not None and not self._has_room(self._poll):
            self._left_out += 1
            return
        text = f"{line}\n".encode(self._encoding, "backslashreplace")
        # As quick as can be: a worker writes one for every job.
        try:
            while text:
                text = text[os.write(self._file, text) :]
        except OSError:
            return
        if self._left_out:
            count, self._left_out = self._left_out, 0
            log.warning("%d lines were left out, because no one read stderr", count)

    def _open(self) -> None:
        """Find out what the stream writes to. It may be something in memory instead of a file."""
        self._file, self._poll = None, None
        with suppress(AttributeError, OSError, ValueError):
            self._file = self.stream.fileno()
            self._encoding = self.stream.encoding or "utf-8"
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                self._poll = select.poll()
                self._poll.register(self._file, select.POLLOUT)
        self._known = self.stream

    def _has_room(self, poll: "select.poll") -> bool:
        try:
            return bool(poll.poll(0))
        except RuntimeError:
            # Another thread has an event loop too, and asks just now.
            return True
