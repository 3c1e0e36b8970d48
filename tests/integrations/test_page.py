"""The examples of the page, run as they stand there, with the login of an application."""

import ast
import asyncio
import re
from typing import Any

import asyncpg
import pytest

from tests.integrations.conftest import PAGE, blocks
from tests.integrations.ways import configure_django

EXAMPLES = blocks("python")[1:]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
async def test_every_example_enqueues_in_its_transaction(shop, monkeypatch, example):
    monkeypatch.setenv("SHOP_URL", shop.url)
    configure_django(shop.url)
    await asyncio.to_thread(run, example)

    [job] = await shop.jobs()
    assert (job["job_type"], job["tenant_id"]) == ("invoice.send", shop.acme)


def run(example: str) -> None:
    code = compile(example, "docs/integrations.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    names: dict[str, Any] = {}
    awaited = eval(code, names)
    if awaited is not None:
        asyncio.run(awaited)
    if "connection" in names:
        names["connection"].close()


async def test_the_sql_of_the_page_runs(shop):
    [example] = blocks("sql")
    conn = await asyncpg.connect(shop.url)
    try:
        made = await conn.fetchrow(example)
    finally:
        await conn.close()

    [job] = await shop.jobs()
    assert (job["id"], made["deduplicated"]) == (made["id"], False)


async def test_the_page_describes_every_argument_of_the_function(owner):
    names = await owner.fetchval(
        """select proargnames[:pronargs] from pg_proc
        where proname = 'enqueue' and pronamespace = 'atlas'::regnamespace"""
    )
    _, _, section = PAGE.partition("\n## SQL\n")

    assert (
        re.findall(r"^\| `(\w+)` \| (?:text|jsonb|int|timestamptz|interval|boolean) \|", section, re.MULTILINE) == names
    )
