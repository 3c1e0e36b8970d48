"""The sealer. It runs in every scheduler and in `atlas up`; any number may run at once."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import asyncpg

from atlas.audit.keys import SigningKey, checkpoint_folder, is_open_to_others, key_file, signing_key
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.seal_status import seal_lag
from atlas.audit.sealing.tree_head import named_as_log, read_head
from atlas.audit.verifier.records import UNREADABLE
from atlas.db.pool import BATCH_SECONDS, UNREACHABLE, Connection, Pool, borrow
from atlas.db.statements import fetch_value, statement
from atlas.errors import AtlasError, Conflict
from atlas.logs import RepeatedWarning, get_logger
from atlas.settings import Settings

log = get_logger("audit.sealer")

NAME_KEY = statement("audit/sealing/sql/name_key.sql")

# Between two passes.
SEAL_SECONDS = 1.0
# A cut-off end shows at the next signature; five seconds between them keep a quiet log's checkpoints few.
SIGN_EVERY = 5.0
# A refusal is an alarm, but the same one every second helps no one.
REPEAT_ALARM = 60.0
MAX_LAG = 60.0
# A scheduler seals and signs within a second; one that is refused tries again each second.
EPOCH_TRIES = 50
EPOCH_PAUSE = 0.2
# Raised by sealing and signing over values that no sealer has written; a lost connection is not among them.
DAMAGED = (*UNREADABLE, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)


class Sealer:
    """Seals what is committed and signs it, a pass at a time. A failure is logged, and the next pass tries again."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self._pool = pool
        self._settings = settings
        self._key = signing_key(settings)
        self._signed_at = 0.0
        self._alarms = _Alarms()
        self._unreachable = RepeatedWarning(log, "sealing failed and is repeated")
        file = key_file(settings)
        if is_open_to_others(file):
            log.warning("everyone on this machine can read the audit key", file=str(file), remedy="chmod 600")

    async def seal(self) -> None:
        """One pass; it signs where the last signature is old."""
        sign = time.monotonic() - self._signed_at >= SIGN_EVERY
        if sign and key_file(self._settings).exists():
            self._key = _read_again(self._key, self._settings)
        try:
            await _pass(self._pool, self._settings, self._key if sign else None)
            self._signed_at = time.monotonic() if sign else self._signed_at
        except AtlasError as error:
            self._alarms.report(error, error.message, remedy=error.remedy)
        except UNREACHABLE as error:
            self._unreachable.log(reason=str(error) or type(error).__name__)
        except Exception as error:
            self._alarms.report(error, f"sealing failed: {type(error).__name__}: {error}", exc_info=error)


async def seal_and_sign(pool: Pool, settings: Settings) -> None:
    """Seal and sign once what is committed, before verifying or exporting."""
    await _pass(pool, settings, signing_key(settings))


async def sign_epoch(conn: Connection, key: SigningKey, folder: Path, *, epoch: int, abandon: bool) -> None:
    """Seal and sign an epoch that has just begun. It retries for a while where a scheduler is doing so too.

    Never the end of the epoch before: at its size there is a note already, beside which none is stored. With `abandon`
    the note abandons the tree signed before.
    """
    for _ in range(EPOCH_TRIES):
        await seal(conn)
        head = await read_head(conn, key)
        if head is not None and head.epoch == epoch:
            if head.is_stored and not abandon:
                return
            if await publish(conn, key, folder, abandon=abandon) is not None:
                return
        await asyncio.sleep(EPOCH_PAUSE)
    raise Conflict(
        f"Epoch {epoch} has begun, but another process kept it from being sealed and signed here.",
        remedy="Run it again, without --new-key, once no other process seals or signs.",
    )


async def seal_first(pool: Pool, settings: Settings) -> AtlasError | None:
    """Seal and sign what is committed, so that the newest rows are covered. Returns why that was refused, if it was.

    Only a machine that holds the key signs; on another one, an auditor's say, the audit log is left as it is.
    """
    try:
        if key_file(settings).exists():
            await seal_and_sign(pool, settings)
        elif settings.embedded:
            async with pool.acquire() as conn:
                await seal(conn)
    except AtlasError as error:
        return error
    except DAMAGED as error:
        # Two sealers at once would break a constraint too, but the lock prevents that.
        return Conflict(f"The sealer cannot continue from the last seal: {str(error) or type(error).__name__}.")
    return None


async def _pass(pool: Pool, settings: Settings, key: SigningKey | None) -> None:
    async with borrow(pool, within=BATCH_SECONDS) as conn:
        if key is not None and key_file(settings).exists():
            # Before its first signature, so that a log which was sealed anew with another key contradicts its rows.
            await fetch_value(conn, NAME_KEY, key=(await named_as_log(conn, key)).public)
        await seal(conn)
        lag = await seal_lag(conn)
        if lag > MAX_LAG:
            log.warning("rows wait to be sealed", seconds=round(lag))
        if key is not None:
            # A lost key may still be in memory here: the key that replaces it begins the next epoch.
            await publish(conn, key, checkpoint_folder(settings), may_begin=key_file(settings).exists())


def _read_again(key: SigningKey, settings: Settings) -> SigningKey:
    """The key in its file, which `atlas audit new-epoch --new-key` may have replaced; else the one in memory."""
    with suppress(AtlasError):
        return signing_key(settings)
    return key


class _Alarms:
    """Logs each kind of error immediately, and again only after a while."""

    def __init__(self) -> None:
        self._reported: dict[type, float] = {}

    def report(self, error: BaseException, message: str, **more: object) -> None:
        now = time.monotonic()
        if now - self._reported.get(type(error), -REPEAT_ALARM) >= REPEAT_ALARM:
            self._reported[type(error)] = now
            log.error(message, **more)
