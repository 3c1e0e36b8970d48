"""How the failures of tasks are logged."""

from typing import Any

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError
from atlas.logs import RepeatedWarning

# What passes by itself: a database that is away for a while, a deadlock, a refusal that may end.
PASSING = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)


def log_repeated(failed: RepeatedWarning, log: Any, error: Exception, **facts: Any) -> None:
    """Log what a frequent poll raised, as `log_failure` does, but what passes by itself not every time."""
    if isinstance(error, PASSING):
        failed.log(reason=str(error) or type(error).__name__, **facts)
    else:
        log_failure(log, failed.event, error, **facts)


def log_failure(log: Any, message: str, error: Exception, **facts: Any) -> None:
    """Log what a poll raised: a warning if it passes by itself, else an error of ours with its traceback."""
    if isinstance(error, PASSING):
        log.warning(message, reason=str(error) or type(error).__name__, **facts)
    else:
        log.error(message, reason=repr(error), exc_info=error, **facts)
