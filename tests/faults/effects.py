"""The effect log: what handlers did, in a file outside of Postgres that is forced to the disk with every line.

All processes of a case append to it, so the order of its lines is the order of what happened.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atlas.engine.jobs.start_right import boot_seconds

# Names the file, for the programs of a case.
VARIABLE = "ATLAS_TEST_EFFECTS"


@dataclass(frozen=True)
class Effect:
    """One line. `what` is start or end of a handler, or what a workflow or the runner notes."""

    what: str
    at: float
    pid: int
    kind: str = ""
    job_id: str = ""
    attempt: int = 0
    key: str = ""


def note(what: str, *, path: Path | None = None, **facts: Any) -> None:
    """Append a line and force it to the disk."""
    effect = Effect(what, **{"at": boot_seconds(), "pid": os.getpid(), **facts})
    line = json.dumps(asdict(effect)).encode() + b"\n"
    file = os.open(path or os.environ[VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def read_effects(path: Path) -> list[Effect]:
    """All lines so far."""
    if not path.exists():
        return []
    return [Effect(**json.loads(line)) for line in path.read_text().splitlines()]
