"""What the tests of the job verbs start from."""

from typing import Any

import pytest

from atlas.engine.jobs.gate import switch
from tests.support import DANA


@pytest.fixture(autouse=True)
async def online(pool: Any) -> None:
    """Atlas is on, unless a test turns it off."""
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
