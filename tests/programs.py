"""Programs that a machine may lack, or have without what a test needs of them: the program itself is asked.

`@needs_program("promtool", "--version")` skips a test, with the reason, unless this command ends with 0.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

# Debian has the programs of servers in a folder that is not on the path of everyone; the set-up may install Node.js.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", str(Path(sys.executable).parent)])
ANSWER_SECONDS = 60

needs_program = pytest.mark.needs_program


def find_program(name: str) -> str | None:
    """Where a program is; None: the machine does not have it."""
    return shutil.which(name, path=PATH)


@cache
def why_unusable(*command: str) -> str | None:
    """Why the machine cannot run this command; None: it can."""
    program = find_program(command[0])
    if program is None:
        return f"{command[0]} is not installed"
    shown = f"`{' '.join(command)}`"
    try:
        ran = subprocess.run(
            [program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shown} cannot be run: {error}"
    if ran.returncode == 0:
        return None
    said = (ran.stderr or ran.stdout).decode(errors="replace").strip().splitlines()
    return f"{shown} ends with {ran.returncode}{f': {said[-1]}' if said else ''}"


def require_program(*command: str) -> None:
    """Skip the test that runs, unless this command ends with 0."""
    if reason := why_unusable(*command):
        pytest.skip(reason)
