"""The calls of Atlas's SQL functions with the placeholders of the drivers that number none."""

import re
from functools import cache

from atlas.db.statements import Statement
from atlas.engine.jobs.attempts.attempt_commit import COMMIT
from atlas.engine.jobs.new_jobs.enqueue_call import CALL


def call_text() -> str:
    """The call of `atlas.enqueue`, with `%s` for each of `call_values`."""
    return _with_marks(CALL)


def commit_text() -> str:
    """The call of `atlas.commit_attempt`, with `%s` for each of its values."""
    return _with_marks(COMMIT)


@cache
def _with_marks(statement: Statement) -> str:
    """Every value stands in the statement once, in its order."""
    return re.sub(r"\$\d+", "%s", statement.sql)
