"""Checks whether the audit log still has what was signed: a restore or a failover may have lost its end."""

import asyncpg

from atlas.audit.keys import checkpoint_folder, key_file, signing_key
from atlas.audit.sealing.checkpoint import require_continuation
from atlas.cli.doctor.finding import Diagnosis
from atlas.db.pool import Connection
from atlas.errors import AtlasError
from atlas.settings import Settings


async def check_checkpoints(conn: Connection, settings: Settings) -> list[Diagnosis]:
    """Compare the audit log with the last signature outside of the database, on a machine that has the key."""
    if not key_file(settings).exists():
        return []
    try:
        await require_continuation(conn, signing_key(settings), checkpoint_folder(settings))
    except AtlasError as error:
        return [Diagnosis("checkpoints", "fail", error.message, error.remedy)]
    except asyncpg.PostgresError:
        return []  # The checks of migrations and roles say why the log cannot be read.
    return [Diagnosis("checkpoints", "ok", "the audit log has all that was signed")]
