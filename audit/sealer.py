"""The sealer's loop: runs in every scheduler and in `atlas up`, any number at once."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import asyncpg

from atlas.audit.checkpoint import HEAD, publish
from atlas.audit.keys import SigningKey, checkpoint_folder, is_open_to_others, key_file, signing_key
from atlas.audit.seal import seal, seal_lag
from atlas.audit.verifier.records import UNREADABLE
from atlas.db.pool import Connection, Pool, borrow
from atlas.db.statements import fetch_row
from atlas.errors import AtlasError, Conflict
from atlas.logs import get_logger
from atlas.settings import Settings
from atlas.waiting import wait_for

log = get_logger("audit.sealer")

EVERY = 1.0
# A cut-off end shows at the next signature; five seconds between them keep a quiet log's checkpoints few.
SIGN_EVERY = 5.0
# A refusal is an alarm, but the same one every second helps nobody.
REPEAT_ALARM = 60.0
LONGEST_LAG = 60.0
# No round takes so long: who waits longer for an answer waits for a line that went silent.
ROUND_SECONDS = 600.0
# A scheduler seals and signs within a second; one that is refused tries again each second.
EPOCH_TRIES = 50
EPOCH_PAUSE = 0.2
# What sealing and signing raise over values that no sealer has written; a lost connection is none of it.
DAMAGED = (*UNREADABLE, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)


async def run_sealer(pool: Pool, settings: Settings, stop: asyncio.Event) -> None:
    """Seal what is committed and sign it, until told to stop. What goes wrong is logged and tried again."""
    key = signing_key(settings)
    if is_open_to_others(key_file(settings)):
        log.warning("everyone on this machine can read the audit key", file=str(key_file(settings)), remedy="chmod 600")
    alarms = _Alarms()
    signed_at = 0.0
    while not stop.is_set():
        sign = time.monotonic() - signed_at >= SIGN_EVERY
        if sign and key_file(settings).exists():
            key = _read_again(key, settings)
        try:
            await _round(pool, settings, key if sign else None)
            signed_at = time.monotonic() if sign else signed_at
        except AtlasError as error:
            alarms.tell(error, error.message, remedy=error.remedy)
        except Exception as error:
            alarms.tell(error, f"sealing failed: {type(error).__name__}: {error}", exc_info=error)
        await wait_for(stop, within=EVERY)


async def seal_and_sign(pool: Pool, settings: Settings) -> None:
    """One round by hand, before verifying or exporting: whatever is committed is sealed and signed."""
    await _round(pool, settings, signing_key(settings))


async def sign_epoch(conn: Connection, key: SigningKey, folder: Path, *, epoch: int, abandon: bool) -> None:
    """Seal an epoch that has just begun, and sign that. Schedulers may be at either; it then tries again for a while.

    Never the end of the epoch before: at its size there is a note already, beside which none is stored. With `abandon`
    the note gives up the tree signed before.
    """
    for _ in range(EPOCH_TRIES):
        await seal(conn)
        head = await fetch_row(conn, HEAD, key_name=key.name)
        if head is not None and head["epoch"] == epoch:
            if head["stored"] and not abandon:
                return
            if await publish(conn, key, folder, abandon=abandon) is not None:
                return
        await asyncio.sleep(EPOCH_PAUSE)
    raise Conflict(
        f"Epoch {epoch} has begun, but another process kept it from being sealed and signed here.",
        remedy="Run it again, without --new-key, once no other process seals or signs.",
    )


async def seal_first(pool: Pool, settings: Settings, *, without_key: bool = False) -> AtlasError | None:
    """Seal and sign what is committed, so that the newest rows are covered. Answers why that was refused, if it was.

    Only a machine that holds the key signs; on another one, an auditor's say, the account is left as it is. For someone
    who changes it, `without_key` seals there too, and a sealer elsewhere signs.
    """
    try:
        if key_file(settings).exists():
            await seal_and_sign(pool, settings)
        elif settings.embedded or without_key:
            async with pool.acquire() as conn:
                await seal(conn)
    except AtlasError as error:
        return error
    except DAMAGED as error:
        # A sealer that comes second breaks off by a constraint too, but the lock keeps it from coming so far.
        return Conflict(f"The sealer cannot go on from the last seal: {str(error) or type(error).__name__}.")
    return None


async def _round(pool: Pool, settings: Settings, key: SigningKey | None) -> None:
    async with borrow(pool, within=ROUND_SECONDS) as conn:
        await seal(conn)
        lag = await seal_lag(conn)
        if lag > LONGEST_LAG:
            log.warning("rows wait for their seal", seconds=round(lag))
        if key is not None:
            # A key that is lost may be at hand here still: the one that takes its place begins the next epoch.
            await publish(conn, key, checkpoint_folder(settings), may_begin=key_file(settings).exists())


def _read_again(key: SigningKey, settings: Settings) -> SigningKey:
    """The key in its file, which `atlas audit new-epoch --new-key` may have made anew; else the one at hand."""
    with suppress(AtlasError):
        return signing_key(settings)
    return key


class _Alarms:
    """Says each kind of alarm at once, and again only after a while."""

    def __init__(self) -> None:
        self._told: dict[type, float] = {}

    def tell(self, error: BaseException, words: str, **more: object) -> None:
        now = time.monotonic()
        if now - self._told.get(type(error), -REPEAT_ALARM) >= REPEAT_ALARM:
            self._told[type(error)] = now
            log.error(words, **more)
