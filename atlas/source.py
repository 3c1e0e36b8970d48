"""Where Atlas's own files are: SQL, migrations, the Prisma schema, examples."""

from pathlib import Path

_PACKAGE = Path(__file__).parent

# The folder that holds `engine/`, `audit/`, `migrations/` …: the checkout, or the installed package.
SOURCE = _PACKAGE if (_PACKAGE / "engine").is_dir() else _PACKAGE.parent
