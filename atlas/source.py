"""Where Atlas's own files are: SQL, migrations, the Prisma schema, examples."""

from pathlib import Path

_PACKAGE = Path(__file__).parent

# The folder that holds `engine/`, `audit/`, `migrations/` …: the checkout, or the installed package.
SOURCE = _PACKAGE if (_PACKAGE / "engine").is_dir() else _PACKAGE.parent


IS_CHECKOUT = (SOURCE / "Makefile").exists()


def setup_command() -> str:
    """How to install Atlas again: in a checkout, or where it came as a wheel."""
    return "make setup" if IS_CHECKOUT else "pip install --force-reinstall atlas-jobs"


def atlas_command() -> str:
    """How a person types `atlas`."""
    return ".venv/bin/atlas" if IS_CHECKOUT else "atlas"
