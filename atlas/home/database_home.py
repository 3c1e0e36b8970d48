"""Which database the files in ATLAS_HOME belong to: keys and checkpoints of two databases must not be mixed.

The database that a home is first used with keeps its files in the home itself; the file `database` there names it.
Any other database that is used with this home gets a folder of its own below `databases`.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from atlas.settings import Settings

FILE = "database"
EMBEDDED = "embedded"


def database_home(settings: Settings) -> Path:
    """The folder for the keys and checkpoints of the database that the settings name."""
    address = database_address(settings)
    owner = _owner(settings.home, address)
    if owner == address:
        return settings.home
    return settings.home / "databases" / hashlib.sha256(address.encode()).hexdigest()[:12]


def database_address(settings: Settings) -> str:
    """What tells two databases apart: server, database and schema, without the login."""
    if settings.database_url is None:
        return EMBEDDED
    parts = urlsplit(settings.database_url)
    servers = parse_qs(parts.query).get("host", [parts.netloc.rpartition("@")[2] or "localhost"])
    return f"{','.join(servers)}{parts.path} {settings.atlas_schema}"


def _owner(home: Path, address: str) -> str:
    """The database that the home belongs to. A home that exists and has none yet becomes this one's."""
    file = home / FILE
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    except OSError:
        return address
    if not home.is_dir():
        return address
    scratch = home / f".{FILE}.{os.getpid()}"
    try:
        scratch.write_text(f"{address}\n", encoding="utf-8")
        # Of two programs that start at once, the first to link it decides.
        with suppress(FileExistsError):
            os.link(scratch, file)
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        # A home that this program cannot write: the files in it are read where they are.
        return address
    finally:
        scratch.unlink(missing_ok=True)
