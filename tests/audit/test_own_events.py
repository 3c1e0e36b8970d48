"""Events of the log itself: the programs' role cannot write them."""

import asyncpg
import pytest

ADD = """
insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, body)
values ('user', 'alice', $1, 'audit_epoch', '1', '{}')"""


async def test_events_of_the_log_itself_are_written_by_functions_of_the_owner_alone(conn):
    for action in ("AUDIT_PRUNED", "AUDIT_EPOCH", "AUDIT_KEY", "ERASED"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not one that audit_log takes from atlas_engine"):
            await conn.execute(ADD, action)
    await conn.execute(ADD, "TOKEN_ADDED")
    assert await conn.fetchval("select array_agg(action) from atlas.audit_log") == ["TOKEN_ADDED"]
