"""Logs: JSON without a terminal, always on stderr, with the ids that were bound."""

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress

import orjson
import pytest

from atlas.log_handlers import StderrHandler

BEGIN = "from atlas.logs import configure_logs, get_logger; import logging, structlog;"


def logged(code: str) -> list[bytes]:
    """The lines on stderr of a program of its own: logging is set up once a process."""
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, check=True)
    assert done.stdout == b""
    return done.stderr.splitlines()


def test_a_line_is_json_when_stderr_is_no_terminal_and_carries_what_was_bound():
    [line] = logged(
        "configure_logs(); get_logger('worker', worker_id='w1').info('claimed', job_id='j1', tenant_id='t1')"
    )

    entry = orjson.loads(line)
    assert {
        "event": "claimed",
        "level": "info",
        "worker_id": "w1",
        "job_id": "j1",
        "tenant_id": "t1",
    }.items() <= entry.items()
    assert entry["timestamp"].endswith("Z")


def test_ids_bound_to_the_context_reach_lines_of_other_libraries_too():
    bind = "structlog.contextvars.bind_contextvars(job_id='j1')"
    [line] = logged(f"configure_logs(); {bind}; logging.getLogger('x').warning('%s', 'hm')")

    entry = orjson.loads(line)
    assert (entry["event"], entry["job_id"]) == ("hm", "j1")


def test_an_exception_is_one_line_with_its_traceback():
    code = """
configure_logs()
try:
    1 / 0
except ZeroDivisionError:
    get_logger('x').exception('broken')
"""
    [line] = logged(code)

    assert "ZeroDivisionError" in orjson.loads(line)["exception"]


def test_lines_on_a_terminal_are_readable():
    [line] = logged("configure_logs(json=False); get_logger('x').info('claimed', job_id='j1')")

    assert b"claimed" in line
    assert b"job_id=j1" in line
    assert not line.startswith(b"{")


@pytest.mark.parametrize(("level", "lines"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_the_level_decides_what_is_logged(level, lines):
    code = f"configure_logs('{level}'); log = get_logger('x'); log.debug('d'); log.info('i'); log.warning('w')"

    assert len(logged(code)) == lines


FREQUENT = "from atlas.logs import frequent_logger; log = lambda: frequent_logger('worker')('ended', {'job_id': 'j1'});"
SEEN = """
class Seen(logging.Handler):
    def emit(self, record): print('seen', record.msg['job_id'], file=__import__('sys').stderr)
logging.getLogger().addHandler(Seen())
log()
"""


def test_a_line_that_is_logged_for_every_job_is_like_any_other_and_passes_the_redactors():
    clean = "from atlas.logs import redact_logs; redact_logs(lambda text: text.replace('j1', 'j2'));"
    [line] = logged(f"{FREQUENT} configure_logs(); {clean} log()")

    entry = orjson.loads(line)
    assert (entry["event"], entry["level"], entry["job_id"]) == ("ended", "info", "j2")
    assert entry["timestamp"].endswith("Z")


def test_it_reaches_other_handlers_too():
    first, second = logged(f"{FREQUENT} configure_logs(){SEEN}")

    assert orjson.loads(first)["job_id"] == "j1"
    assert second == b"seen j1"


@pytest.mark.parametrize("line", ["get_logger('x', a=1).info('hm')", "logging.getLogger('x').info('hm')"])
def test_structlog_may_be_loaded_with_the_first_line(line):
    code = f"""
import sys
from atlas.logs import configure_logs, get_logger
configure_logs("debug", late=True)
log = get_logger("y")
assert "structlog" not in sys.modules
import logging
{line}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    entry = orjson.loads(done.stderr)
    assert (entry["event"], entry["level"]) == ("hm", "info")


class FullPipe:
    """A pipe that takes nothing more, until it is read."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.reader, self.stream = os.fdopen(read, "rb", buffering=0), os.fdopen(write, "w")
        self.is_read = threading.Event()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        with suppress(BlockingIOError):
            while os.write(write, b"x" * 4096):
                pass
        os.set_blocking(write, True)

    def read(self) -> str:
        """Read what is in it."""
        self.is_read.set()
        return (self.reader.readall() or b"").decode().lstrip("x")


async def test_the_event_loop_does_not_wait_for_stderr_and_says_what_it_left_out(caplog):
    caplog.set_level(logging.WARNING)
    pipe = FullPipe()
    handler = StderrHandler(pipe.stream)
    # Ends the wait of a handler that does wait.
    late = threading.Timer(10, pipe.read)
    late.start()
    handler.write("nobody reads")
    handler.write("nobody reads")
    late.cancel()
    assert not pipe.is_read.is_set()

    pipe.read()
    logging.getLogger().addHandler(handler)
    try:
        handler.write("read again")
    finally:
        logging.getLogger().removeHandler(handler)
    assert pipe.read().splitlines() == ["read again", "2 lines were left out, because no one read stderr"]
