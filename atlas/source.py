"""Where Atlas's own files are: SQL, migrations, the Prisma schema, examples."""

import os
import re
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

# A command in a text, and its name in it.
_QUOTED = re.compile(r"`[^`\n]*`")
_COMMAND = re.compile(r"(?<![\w./-])atlas(?= [a-z-])")

_PACKAGE = Path(__file__).parent

# The folder that holds `engine/`, `audit/`, `migrations/` …: the checkout, or the installed package.
SOURCE = _PACKAGE if (_PACKAGE / "engine").is_dir() else _PACKAGE.parent


IS_CHECKOUT = (SOURCE / "Makefile").exists()


def source_file(path: str) -> Path:
    """A file of Atlas by its path in the repository. An installed package has the files of `atlas/` at its top."""
    inner = path.removeprefix("atlas/")
    return _PACKAGE / inner if inner != path else SOURCE / path


def setup_command() -> str:
    """How to install Atlas again: in a checkout, or where it came as a wheel."""
    return "make setup" if IS_CHECKOUT else "pip install --force-reinstall atlas_jobs-….whl"


@cache
def atlas_command() -> str:
    """How a person in this folder types `atlas`: its name if the PATH leads to this installation, else its path."""
    program = Path(sys.prefix) / "bin" / "atlas"
    if not program.exists() or _runs_this(shutil.which("atlas")):
        return "atlas"
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)


def name_command(text: str) -> str:
    """A text whose commands in backticks, `atlas …`, are named as a person in this folder types them."""
    if atlas_command() == "atlas" or "atlas " not in text:
        return text
    return _QUOTED.sub(lambda quoted: _COMMAND.sub(atlas_command(), quoted[0]), text)


def _runs_this(address: str | None) -> bool:
    """Whether a script of that path runs in this environment: its beginning names the interpreter."""
    if address is None:
        return False
    with suppress(OSError), open(address, "rb") as script:
        return os.fsencode(sys.prefix) in script.read(1000)
    return False
