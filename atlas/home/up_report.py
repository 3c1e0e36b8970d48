"""What `atlas up` reports about its programs, in a file of ATLAS_HOME, for `atlas status` and the API.

The file is locked for as long as `atlas up` lives: what an `atlas up` that was killed wrote is not believed. It is
written in place, which a full disk does not prevent.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from atlas.home.private_folder import make_private
from atlas.logs import get_logger
from atlas.models.system import ProgramStatus

FILE = "programs.json"
# The token that `atlas up` prints, beside it.
OPERATOR_TOKEN = "operator-token"

log = get_logger(__name__)


class UpReport:
    """Keeps the states of the programs in the file."""

    def __init__(self, file: int | None, names: Sequence[str], address: str | None) -> None:
        self._file = file
        self._address = address
        self._states = {
            name: ProgramStatus(name=name, pid=None, started_at=None, ends=0, last_end=None) for name in names
        }

    def started(self, name: str, pid: int) -> None:
        """A program was started."""
        self._set(name, pid=pid, started_at=datetime.now(UTC))

    def ended(self, name: str, how: str, *, ends: int) -> None:
        """A program ended by itself, `ends` times in a row now."""
        self._set(name, pid=None, ends=ends, last_end=how)

    def _set(self, name: str, **values: Any) -> None:
        self._states[name] = self._states[name].model_copy(update=values)
        if self._file is not None:
            programs = [state.model_dump() for state in self._states.values()]
            text = orjson.dumps({"address": self._address, "programs": programs})
            try:
                os.pwrite(self._file, text, 0)
                os.ftruncate(self._file, len(text))
            except OSError as error:
                log.warning("the states of the programs cannot be written", reason=str(error))


@contextmanager
def reporting(home: Path, names: Sequence[str], *, address: str | None = None) -> Iterator[UpReport]:
    """Report on these programs, and where their API is. Of several processes with the same home, the first one does."""
    file = None
    try:
        make_private(home)
        file = os.open(home / FILE, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        log.warning("`atlas status` cannot show the states of the programs", reason=str(error))
        yield UpReport(None, names, address)
    else:
        yield UpReport(file, names, address)
    finally:
        if file is not None:
            os.close(file)


def read_programs(home: Path) -> list[ProgramStatus]:
    """The programs of the `atlas up` that runs with this home, if one does."""
    return [ProgramStatus.model_validate(program) for program in _read(home).get("programs", [])]


def api_address(home: Path) -> str | None:
    """Where the API of that `atlas up` is, if it runs."""
    is_running = any(program.name == "api" and program.pid is not None for program in read_programs(home))
    address: str | None = _read(home).get("address") if is_running else None
    return address


def _read(home: Path) -> dict[str, Any]:
    try:
        with (home / FILE).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return dict(orjson.loads(file.read()))
    except (OSError, ValueError):
        pass  # No `atlas up` was ever started here, or it has written nothing yet.
    return {}
