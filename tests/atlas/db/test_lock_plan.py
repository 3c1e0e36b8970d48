"""`atlas migrate --check`: what a migration would lock is found on a copy, and the database is only read."""

import pytest

from atlas.db.lock_plan import PlannedStep, plan_locks
from atlas.db.migrations import Migration, migrate
from tests.atlas.db.test_migrations import fetch

APPLIED = Migration(
    "1_first", "create table a (id int primary key, b int, c text); create table d (id int references a)"
)
PENDING = [
    Migration("2_column", "alter table a add column e int default 1"),
    Migration("3_rewrite", "alter table a alter column id type bigint"),
    Migration("4_index", "create index a_b on a (b)"),
    Migration("5_index_aside", "-- Outside of a transaction.\ncreate index concurrently a_c on a (c)"),
    Migration("6_reference", "create table f (id bigint references a)"),
    Migration("7_rows", "update d set id = 2 where id = 1"),
    Migration("8_gone", "drop table d"),
]


@pytest.mark.long
async def test_each_migration_names_the_tables_it_locks_who_waits_and_for_how_long(empty_url, monkeypatch):
    monkeypatch.setattr("atlas.db.lock_plan.READ_RATE", 1000)
    monkeypatch.setattr("atlas.db.lock_plan.REWRITE_RATE", 1000)
    await migrate(empty_url, [APPLIED])
    await fetch(empty_url, "insert into atlas.a select n, n, 'x' from generate_series(1, 1000) n")
    await fetch(empty_url, "insert into atlas.d values (1)")
    await fetch(empty_url, "analyze atlas.a")

    steps = await plan_locks(empty_url, [APPLIED, *PENDING])

    found = {step.name: [(lock.table, lock.who_waits, lock.work) for lock in step.locks] for step in steps}
    assert found == {
        "2_column": [("a", "all wait", "its definition changes")],
        # Its references are checked again.
        "3_rewrite": [("a", "all wait", "it is rewritten"), ("d", "all wait", "it is read whole")],
        "4_index": [("a", "writes wait", "it is read whole")],
        "5_index_aside": [("a", "reads and writes go on", "an index is built")],
        "6_reference": [("a", "writes wait", "its definition changes")],
        "7_rows": [("d", "reads and writes go on", "it is read whole")],
        "8_gone": [("a", "all wait", "its definition changes"), ("d", "all wait", "it is dropped")],
    }
    by_name = {step.name: step.locks[0] for step in steps}
    assert by_name["2_column"].seconds == 0
    assert by_name["3_rewrite"].seconds > by_name["4_index"].seconds > 10
    assert by_name["4_index"].rows == 1000
    assert await fetch(empty_url, "select from pg_attribute where attname = 'e'") == []
    assert await plan_locks(empty_url, [APPLIED]) == []


async def test_a_new_database_has_nothing_to_lock(empty_url):
    assert await plan_locks(empty_url, [APPLIED]) == [PlannedStep("1_first")]


@pytest.mark.long
async def test_installing_the_functions_locks_no_table(database_url, owner):
    await owner.execute("""update atlas.system_state set value = value || '{"sha256": ""}' where key = 'functions'""")

    assert await plan_locks(database_url) == [PlannedStep("functions")]
