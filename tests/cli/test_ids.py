"""Ids by their beginning: in every command that takes one, as long as no other begins so."""

from uuid import UUID

import pytest

from atlas.cli.terminal.ids import find_id, id_range, is_beginning
from atlas.errors import Conflict, InvalidInput, NotFound

FIRST, SECOND = "01a1e110-0000-7000-8000-00000000000a", "01a1e110-0000-7000-8000-00000000000b"
OTHER = "01a1e111-0000-7000-8000-000000000000"
INSERT = (
    "insert into atlas.jobs (id, tenant_id, job_type) select $1, id, 'a.work' from atlas.tenants where slug = 'system'"
)


def test_a_beginning_is_a_range_of_ids():
    assert id_range("ID", "01A1-e110") == (
        UUID("01a1e110-0000-0000-0000-000000000000"),
        UUID("01a1e110-ffff-ffff-ffff-ffffffffffff"),
    )
    assert [is_beginning(text) for text in ("01a", "01a1", "01g1", "", "0" * 32)] == [False, True, False, False, False]


async def test_the_only_id_that_begins_so_is_found_and_others_are_named(conn):
    for id in (FIRST, SECOND, OTHER):
        await conn.execute(INSERT, UUID(id))

    assert await find_id(conn, "job", "01a1e111") == UUID(OTHER)
    assert await find_id(conn, "job", FIRST[:-1] + "a") == UUID(FIRST)
    with pytest.raises(Conflict, match=f"several jobs begin with 01a1e110: {FIRST}, {SECOND}.") as several:
        await find_id(conn, "job", "01a1e110")
    assert several.value.remedy == "Type more of the id."
    with pytest.raises(NotFound, match="There is no job 01a1e112"):
        await find_id(conn, "job", "01a1e112")
    with pytest.raises(NotFound, match="There is no run 01a1e111"):
        await find_id(conn, "run", "01a1e111")
    with pytest.raises(InvalidInput, match="'xyz' is not an id, nor the beginning of one with at least four digits"):
        await find_id(conn, "job", "xyz")


async def test_an_error_names_no_more_than_a_few(conn):
    for number in range(12):
        await conn.execute(INSERT, UUID(int=UUID(FIRST).int + number))

    with pytest.raises(Conflict, match=" and others") as several:
        await find_id(conn, "job", "01a1e110")
    assert several.value.message.count("01a1e110-") == 8


async def test_commands_take_the_beginning_of_an_id(atlas, conn):
    await conn.execute(INSERT, UUID(FIRST))
    await conn.execute(INSERT, UUID(OTHER))

    canceled = await atlas("jobs", "cancel", "01a1e111")
    both = await atlas("jobs", "delete", "01a1e11")
    listed = await atlas("jobs", "list", "--before", "01a1e111", "--json")

    assert canceled.stdout == f"Job {OTHER} is canceled.\n"
    assert f"begin with 01a1e11: {FIRST}, {OTHER}." in both.refusal
    assert [job["id"] for job in listed.document["jobs"]] == [FIRST]


async def test_names_come_before_beginnings_of_ids(atlas):
    await atlas("tenant", "add", "acme")
    host = (await atlas("host", "add", "cafe", "--tenant", "acme", "--json")).document
    trigger = (
        await atlas("trigger", "add", "--tenant", "acme", "--cron", "@daily", "--job-type", "a.work", "--json")
    ).document
    token = (
        await atlas("token", "add", "--subject", "ci", "--role", "host", "--tenant", "acme", "--host", "cafe", "--json")
    ).document
    by_id = await atlas(
        *("token", "add", "--subject", "c2", "--role", "host", "--tenant", "acme"),
        *("--host", host["id"][:35], "--json"),
    )
    revoked = await atlas("token", "revoke", token["id"][:35])
    removed = await atlas("trigger", "remove", trigger["id"][:35])

    assert by_id.document["scopes"] == token["scopes"] == {"host_id": host["id"]}
    assert revoked.stdout == f"Token {token['prefix']} of ci revoked.\n"
    assert removed.stdout.startswith(f"Trigger {trigger['id']} ")
    assert "There is no token nothing-such" in (await atlas("token", "revoke", "nothing-such")).refusal
