"""The page describes the SQL function as it is. Its examples are run by tests/docs."""

import re

from tests.integrations.conftest import PAGE


async def test_the_page_describes_every_argument_of_the_function(owner):
    names = await owner.fetchval(
        """select proargnames[:pronargs] from pg_proc
        where proname = 'enqueue' and pronamespace = 'atlas'::regnamespace"""
    )
    _, _, section = PAGE.partition("\n## SQL\n")

    assert (
        re.findall(r"^\| `(\w+)` \| (?:text|jsonb|int|timestamptz|interval|boolean) \|", section, re.MULTILINE) == names
    )
