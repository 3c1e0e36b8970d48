"""A program with a defect, for the tests of the fault suite: it moves money in two transactions instead of one."""

import asyncio
import os
from typing import Any

import asyncpg

from tests.faults.judge import Evidence
from tests.faults.program import Program


def main() -> None:
    """Take 10 from one account and give it to the other, unless that was done."""
    asyncio.run(_transfer())


async def _transfer() -> None:
    conn = await asyncpg.connect(os.environ["DATABASE_URL"])
    try:
        await conn.execute("select 'something harmless'")
        await conn.execute("update accounts set balance = balance - 10 where name = 'from'")
        await conn.execute("update accounts set balance = balance + 10 where name = 'to'")
    finally:
        await conn.close()


async def give_accounts(conn: Any) -> None:
    await conn.execute("create table accounts (name text, balance int)")
    await conn.execute("insert into accounts values ('from', 100), ('to', 0)")


async def no_money_is_lost(evidence: Evidence) -> list[str]:
    total = await evidence.conn.fetchval("select sum(balance) from accounts")
    return [] if total == 100 else [f"the accounts hold {total} in all"]


TRANSFER = Program(
    "transfer",
    (),
    give_accounts,
    "select balance > 0 from accounts where name = 'to'",
    (no_money_is_lost,),
    main="tests.faults.transfer:main",
)
