"""The call of `atlas.enqueue` with the placeholders of the drivers that number none."""

import re
from functools import cache

from atlas.engine.jobs.enqueue_call import CALL


@cache
def call_text() -> str:
    """With `%s` for each value. Every one stands in the statement once, in the order of `call_values`."""
    return re.sub(r"\$\d+", "%s", CALL.sql)
