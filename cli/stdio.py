"""The three streams that a program is given, one of which may be closed or full."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from atlas.errors import AtlasError


class OutputLost(AtlasError):
    """What a command has to say cannot be written."""


def prepare_streams() -> None:
    """Have three streams that a command can rely on, however it was started.

    In place of one that was closed (`<&-`) stands nothing: the next file that is opened would take its place. Standard
    output has a buffer, also under PYTHONUNBUFFERED: without one, Python drops what a single write does not take.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))

    if isinstance(sys.stdout, io.TextIOWrapper) and not isinstance(sys.stdout.buffer, io.BufferedWriter):
        sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
        sys.stdout.reconfigure(line_buffering=True)


def let_go_of_stdout() -> None:
    """Nobody reads on, or there is no room: what is still in its buffer has no way out either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def written_out() -> Iterator[None]:
    """All that is said within is out at its end; a reader who left is another matter (BrokenPipeError)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go_of_stdout()
        raise OutputLost(
            f"The answer cannot be written: {error.strerror}.",
            remedy="What was asked for may be done; make room or send stdout elsewhere, and look.",
        ) from error
