"""Standard input, output and error, any of which may be closed or full."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from atlas.errors import AtlasError


class OutputLost(AtlasError):
    """The output of a command cannot be written."""


def prepare_streams() -> None:
    """Make sure that all three streams are open, that standard output has a buffer, and that it takes every character.

    If a stream was closed (`<&-`), the next file that is opened would get its number. Under PYTHONUNBUFFERED standard
    output has no buffer, and Python drops what a single write does not take.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free, which is this one.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))

    if isinstance(sys.stdout, io.TextIOWrapper) and not isinstance(sys.stdout.buffer, io.BufferedWriter):
        sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
        sys.stdout.reconfigure(line_buffering=True)
    # A name that the terminal cannot show is no reason to fail: it is escaped, as in \xfc.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream takes every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")


def discard_stdout() -> None:
    """Send the rest of standard output nowhere, since the reader left or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def written_out() -> Iterator[None]:
    """Flush standard output after the block. Raises OutputLost if that fails, or BrokenPipeError if the reader left."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise OutputLost(
            f"The output cannot be written: {error.strerror}.",
            remedy="The command itself may have succeeded. Free some space or redirect stdout, then check.",
        ) from error
