"""Definitions: who may add what, and how the job type, the claim and the payload follow."""

from typing import Any
from uuid import uuid4

import orjson
import pytest

from atlas.engine.admission import admit, enqueue_definition
from atlas.engine.commands.argv import Facts, fill_argv
from atlas.engine.commands.definitions import (
    add_definition,
    disable_definition,
    edit_definition,
    find_definition,
    list_definitions,
)
from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.leased_jobs import claim_for_host, claim_for_worker, complete
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import Notes
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import DuplicateJobType, JobType
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import Conflict, InvalidInput, NotFound, Refused
from tests.engine.jobs.given import actions, given_worker, load
from tests.support import DANA

SYNC: dict[str, Any] = {
    "key": "sync-dropbox",
    "argv": ["/opt/sync", "--tenant", "{{tenant.id}}", "--provider={{provider_id}}", "--", "{{path}}"],
    "arg_schema": {
        "type": "object",
        "properties": {
            "provider_id": {"type": "string", "pattern": "^[a-z0-9]+$"},
            "path": {"type": "string"},
        },
        "required": ["provider_id", "path"],
        "additionalProperties": False,
    },
}


async def wrong(conn: Any, **changes: Any) -> str:
    with pytest.raises(InvalidInput) as refusal:
        await add_definition(conn, {**SYNC, **changes}, actor=DANA)
    return str(refusal.value)


async def test_a_definition_has_the_defaults_that_are_promised(conn):
    made = await add_definition(conn, SYNC, actor=DANA)

    spec = (await find_definition(conn, "sync-dropbox")).spec
    assert (spec.description, spec.timeout_seconds, spec.max_retries, spec.is_active) == ("", 3600, 2, True)
    assert spec.argv == SYNC["argv"]
    assert await actions(conn, made.id) == ["DEFINITION_ADDED"]


async def test_one_without_argv_runs_the_installations_program_with_its_key_and_the_tenant(conn):
    described = {"key": "sync-dropbox", "max_attempts": 3}
    await add_definition(conn, described, actor=DANA, program="/opt/zoltag/bin/zoltag")
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    job = await admit(conn, NewJob("sync-dropbox", {}, acme.id))
    spec = (await find_definition(conn, "sync-dropbox")).spec

    assert spec.argv == ["/opt/zoltag/bin/zoltag", "sync-dropbox", "--tenant-id", "{{ tenant.id }}"]
    assert fill_argv(spec.argv, job.input, Facts(acme.id, "acme", job.id))[1:] == [
        "sync-dropbox",
        "--tenant-id",
        str(acme.id),
    ]
    edited = await edit_definition(conn, "sync-dropbox", {"timeout_seconds": 60}, actor=DANA)
    assert edited.spec.argv == spec.argv


async def test_one_without_argv_is_refused_where_the_installation_names_no_program(conn):
    with pytest.raises(InvalidInput, match="argv: is required.*or set ATLAS_COMMAND_PROGRAM"):
        await add_definition(conn, {"key": "sync-dropbox"}, actor=DANA)


async def test_its_key_is_a_job_type_with_the_same_terms(conn):
    await add_definition(
        conn, {**SYNC, "timeout_seconds": 9, "max_attempts": 5, "concurrency": 3, "retry_policy": "agent"}, actor=DANA
    )

    row = await conn.fetchrow("select * from atlas.job_types where key = 'sync-dropbox'")
    assert (row["timeout_seconds"], row["max_retries"], row["concurrency"]) == (9, 4, 3)
    assert orjson.loads(row["input_schema"]) == SYNC["arg_schema"]
    assert orjson.loads(row["retry_policy"])["base"] == 2

    await edit_definition(conn, "sync-dropbox", {"concurrency": None, "max_retries": 0}, actor=DANA)
    row = await conn.fetchrow("select * from atlas.job_types where key = 'sync-dropbox'")
    assert (row["timeout_seconds"], row["max_retries"], row["concurrency"]) == (9, 0, None)


async def test_a_policy_brings_its_retries_unless_the_definition_says_otherwise(conn):
    capped = await add_definition(conn, {**SYNC, "retry_policy": "capped"}, actor=DANA)
    own = await add_definition(conn, {**SYNC, "key": "own", "retry_policy": "capped", "max_attempts": 2}, actor=DANA)
    assert (capped.spec.max_retries, own.spec.max_retries) == (5, 1)

    edited = await edit_definition(conn, "own", {"timeout_seconds": 5}, actor=DANA)
    assert edited.spec.max_retries == 1


async def test_a_key_that_is_taken_is_a_conflict(conn):
    await add_definition(conn, SYNC, actor=DANA)
    with pytest.raises(Conflict, match="sync-dropbox is taken"):
        await add_definition(conn, SYNC, actor=DANA)

    await conn.execute("insert into atlas.job_types (key) values ('report.build')")
    with pytest.raises(Conflict, match="a job type that a handler serves"):
        await add_definition(conn, {**SYNC, "key": "report.build"}, actor=DANA)
    assert [definition.spec.key for definition in await list_definitions(conn)] == ["sync-dropbox"]


async def test_a_handler_cannot_take_the_key_of_a_definition(conn):
    await add_definition(conn, SYNC, actor=DANA)
    before = await conn.fetchval("select input_schema from atlas.job_types where key = 'sync-dropbox'")
    handled = JobType("sync-dropbox", print, None, True, False, None, 3, ATLAS, None, "", "JOB_SUCCEEDED")

    with pytest.raises(DuplicateJobType, match="a command definition in the database"):
        await publish_types(conn, [handled])
    assert await conn.fetchval("select input_schema from atlas.job_types where key = 'sync-dropbox'") == before


@pytest.mark.parametrize("key", ["EMAIL_SEND", "email_send", "ENGINE_RUN", "SERVER_START", "", "a b", "-x", "a" * 101])
async def test_a_key_that_means_something_else_is_refused(conn, key):
    assert "key" in await wrong(conn, key=key)


async def test_a_schema_that_reaches_out_or_costs_too_much_is_refused(conn):
    schemas: list[tuple[dict[str, Any], str]] = [
        ({"$ref": "http://example.test/schema"}, "refers to a schema elsewhere"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "refers to a schema elsewhere"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "refers to a schema elsewhere"),
        ({"properties": {"a": {"$id": "http://example.test/x"}}}, "changes what references mean"),
        ({"$schema": "http://example.test/dialect"}, "is not JSON Schema"),
        ({"properties": {"a": {"pattern": "a" * 257}}}, "is longer than 256 characters"),
        ({"patternProperties": {"a" * 257: {}}}, "a pattern longer than 256 characters"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "is not JSON Schema"),
        ({"properties": {"a": {"pattern": "(?=a)b"}}}, "is not JSON Schema"),
        ({"properties": {"a": {"enum": ["x" * 70_000]}}}, "is larger than 64 KiB"),
        ({"type": "array"}, 'is not "object"'),
        ({"x-secret": True}, "marks the whole input"),
    ]
    for schema, reason in schemas:
        received = await wrong(conn, argv=["/opt/sync"], arg_schema={"type": "object", **schema})
        assert reason in received, (schema, received)
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"properties": {"a": deep}}
    assert "is nested deeper" in await wrong(conn, argv=["/opt/sync"], arg_schema={"type": "object", **deep})


async def test_a_format_is_enforced_and_an_unknown_one_is_refused(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    schema = {
        "type": "object",
        "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"],
        "additionalProperties": False,
    }
    argv = ["/opt/sync", "--provider={{provider_id}}"]
    await add_definition(conn, {**SYNC, "argv": argv, "arg_schema": schema}, actor=DANA)

    with pytest.raises(InvalidInput, match='provider_id: the value is not a "uuid"'):
        await enqueue_definition(conn, "sync-dropbox", {"provider_id": "demo"}, actor=DANA, tenant_id=tenant.id)
    payload = {"provider_id": str(uuid4()), "path_prefix": "/"}
    await enqueue_definition(conn, "sync-dropbox", payload, actor=DANA, tenant_id=tenant.id)

    misspelt = {"type": "object", "properties": {"a": {"format": "uuuid"}, "format": {"type": "string"}}}
    received = await wrong(conn, argv=["/opt/sync"], arg_schema=misspelt)
    assert "arg_schema.properties.a.format: is not one of JSON Schema" in received


async def test_the_formats_of_a_handlers_model_are_left_to_the_model(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date-time"}}}
    await conn.execute(
        "insert into atlas.job_types (key, input_schema) values ('a.b', $1)", orjson.dumps(schema).decode()
    )

    # A model's datetime takes it; the format of that name wants a zone.
    assert await admit(conn, NewJob("a.b", {"day": "2026-02-16T10:30:00"}, tenant.id))


async def test_a_bare_name_is_a_program_where_the_definition_gives_its_path(conn):
    zoltag = {**SYNC, "argv": ["zoltag", "sync-dropbox", "--tenant-id", "{{tenant.id}}"]}
    with pytest.raises(InvalidInput, match="argv.0: is neither the absolute path"):
        await add_definition(conn, zoltag, actor=DANA)
    assert "programs.zoltag: is not the absolute" in await wrong(conn, programs={"zoltag": "bin/zoltag"})
    assert "programs.zoltag: is sh, which runs" in await wrong(conn, programs={"zoltag": "/bin/sh"})
    assert "programs: '../x' is not a name" in await wrong(conn, programs={"../x": "/bin/true"})

    made = await add_definition(conn, {**zoltag, "programs": {"zoltag": "/opt/zoltag/bin/zoltag"}}, actor=DANA)
    assert (await find_definition(conn, "sync-dropbox")).spec.programs == made.spec.programs
    with pytest.raises(InvalidInput, match="argv.0"):
        await edit_definition(conn, "sync-dropbox", {"programs": {}}, actor=DANA)


async def test_terms_that_cannot_be_met_are_refused_by_name(conn):
    assert "timeout_seconds" in await wrong(conn, timeout_seconds=0)
    assert "max_retries" in await wrong(conn, max_retries=-1)
    assert "concurrency" in await wrong(conn, concurrency=0)
    assert "concurrency_key" in await wrong(conn, concurrency=1, concurrency_key="{{ provider_id }}")
    assert "rate" in await wrong(conn, rate="often")
    assert "burst" in await wrong(conn, burst=2)
    assert "limits.memory_mb" in await wrong(conn, limits={"memory_mb": 1})
    assert "limits.disk" in await wrong(conn, limits={"disk": 1})
    assert "retry" in await wrong(conn, retry_policy="sometimes")
    assert "shell" in await wrong(conn, shell=True)
    assert "env.LD_PRELOAD" in await wrong(conn, env={"LD_PRELOAD": "/x.so"})
    assert "U+0000" in await wrong(conn, description="a\0b")


async def test_an_edit_changes_what_it_names_and_is_checked_as_a_whole(conn):
    made = await add_definition(conn, SYNC, actor=DANA)

    edited = await edit_definition(conn, "sync-dropbox", {"timeout_seconds": 5}, actor=DANA)
    assert (edited.spec.timeout_seconds, edited.spec.argv) == (5, SYNC["argv"])
    edited = await edit_definition(conn, "sync-dropbox", {"max_attempts": 5}, actor=DANA)
    assert edited.spec.max_retries == 4
    with pytest.raises(InvalidInput, match="max_attempts"):
        await edit_definition(conn, "sync-dropbox", {"max_attempts": 5, "max_retries": 1}, actor=DANA)
    await edit_definition(conn, "sync-dropbox", {"limits": {"files": 99, "cpu_seconds": 9}}, actor=DANA)
    changes = {"limits": {"memory_mb": 65, "cpu_seconds": None}}
    limits = (await edit_definition(conn, "sync-dropbox", changes, actor=DANA)).spec.limits
    assert (limits.files, limits.memory_mb, limits.cpu_seconds) == (99, 65, None)
    with pytest.raises(InvalidInput, match="names path"):
        await edit_definition(conn, "sync-dropbox", {"arg_schema": {"type": "object"}}, actor=DANA)
    with pytest.raises(InvalidInput, match="key: cannot be changed"):
        await edit_definition(conn, "sync-dropbox", {"key": "other"}, actor=DANA)
    with pytest.raises(NotFound):
        await edit_definition(conn, "nothing", {"timeout_seconds": 5}, actor=DANA)

    assert (await disable_definition(conn, "sync-dropbox", actor=DANA)).spec.is_active is False
    assert await actions(conn, made.id) == ["DEFINITION_ADDED", *["DEFINITION_EDITED"] * 4, "DEFINITION_DISABLED"]
    facts = await conn.fetch("select meta from atlas.audit_log where action = 'DEFINITION_EDITED' order by id")
    changed = [orjson.loads(fact["meta"])["changed"] for fact in facts]
    assert changed == [["timeout_seconds"], ["max_retries"], ["limits"], ["limits"]]


async def test_a_definition_that_todays_rules_refuse_can_be_disabled(conn):
    made = await add_definition(conn, {**SYNC, "env": {"A": "b"}}, actor=DANA)
    # As an earlier version, whose rules were looser, would have stored it.
    await conn.execute("""update atlas.job_definitions set env = '{"LD_PRELOAD": "/x.so"}'""")

    with pytest.raises(InvalidInput, match="env.LD_PRELOAD"):
        await edit_definition(conn, "sync-dropbox", {"timeout_seconds": 5}, actor=DANA)
    disabled = await disable_definition(conn, "sync-dropbox", actor=DANA)
    assert (disabled.spec.is_active, disabled.spec.env) == (False, {"LD_PRELOAD": "/x.so"})
    with pytest.raises(NotFound):
        await disable_definition(conn, "nothing", actor=DANA)

    await disable_definition(conn, "sync-dropbox", actor=DANA)
    assert await actions(conn, made.id) == ["DEFINITION_ADDED", "DEFINITION_DISABLED", "DEFINITION_EDITED"]


async def test_the_values_of_an_environment_are_not_in_the_audit_log(conn):
    await add_definition(conn, {**SYNC, "env": {"API_URL": "http://user:hunter22@example.test"}}, actor=DANA)

    [body] = [
        row["body"] for row in await conn.fetch("select body from atlas.audit_log where action = 'DEFINITION_ADDED'")
    ]
    assert b"API_URL" in body
    assert b"hunter22" not in body


async def test_a_payload_is_checked_before_it_becomes_a_job(conn):
    made = await add_definition(conn, SYNC, actor=DANA)

    job = await enqueue_definition(conn, "sync-dropbox", {"provider_id": "p1", "path": "a"}, actor=DANA, priority=4)
    row = await load(conn, job.id)
    assert (row["job_type"], row["definition_id"], row["max_retries"], row["priority"]) == (
        "sync-dropbox",
        made.id,
        2,
        4,
    )

    for payload, reason in [
        ({"provider_id": "p1"}, '"path" is a required property'),
        ({"provider_id": "P 1", "path": "a"}, "provider_id: the value does not match"),
        ({"provider_id": "p1", "path": 5}, "path: the value is not of type"),
        ({"provider_id": "p1", "path": "a", "shell": "x"}, "shell"),
        ({"provider_id": "p1", "path": "--delete"}, "begins with a dash"),
        ({"provider_id": "p1", "path": "a" * 300_000}, "is larger than 256 KiB"),
    ]:
        with pytest.raises(InvalidInput) as refusal:
            await enqueue_definition(conn, "sync-dropbox", payload, actor=DANA)
        assert reason in str(refusal.value)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_a_hard_pattern_takes_no_longer_than_an_easy_one(conn):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    await add_definition(conn, {"key": "slow", "argv": ["/opt/x"], "arg_schema": schema}, actor=DANA)

    with pytest.raises(InvalidInput):
        await enqueue_definition(conn, "slow", {"a": "a" * 5000 + "!"}, actor=DANA)


async def test_no_job_of_a_disabled_definition_is_made(conn):
    await add_definition(conn, {**SYNC, "is_active": False}, actor=DANA)

    with pytest.raises(Refused, match="sync-dropbox is disabled"):
        await enqueue_definition(conn, "sync-dropbox", {"provider_id": "p1", "path": "a"}, actor=DANA)
    with pytest.raises(NotFound):
        await enqueue_definition(conn, "nothing", {}, actor=DANA)


async def test_no_host_and_no_remote_worker_starts_a_job_of_a_disabled_definition(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    host = await add_host(conn, tenant_id=tenant.id, name="rack-1", actor=DANA)
    await add_definition(conn, {"key": "tidy", "argv": ["/bin/true"]}, actor=DANA)
    terms = {"tenant_id": tenant.id, "priority": 5, "actor": DANA}
    outside = (await enqueue_definition(conn, "tidy", {}, **terms)).id
    bound = (await enqueue_definition(conn, "tidy", {}, host_id=host.id, **terms)).id
    await disable_definition(conn, "tidy", actor=DANA)
    other = [NewJob("other", {}, tenant.id), NewJob("other", {}, tenant.id, host_id=host.id)]
    await enqueue_many(conn, other, actor=DANA)

    assert [(await explain(conn, one)).reason for one in (outside, bound)] == ["disabled", "disabled"]
    claimed = await claim_for_worker(conn, uuid4(), tenant.id, ["tidy", "other"], limit=10, lease=30)
    assert [one.job.id for one in claimed] == [other[0].id]
    given = await claim_for_host(conn, host.id, lease=30)
    assert given is not None
    assert given.job.id == other[1].id

    await complete(conn, given.lease, {}, Notes())
    await edit_definition(conn, "tidy", {"is_active": True}, actor=DANA)
    claimed = await claim_for_worker(conn, uuid4(), tenant.id, ["tidy"], limit=10, lease=30)
    assert [one.job.id for one in claimed] == [outside]
    given = await claim_for_host(conn, host.id, lease=30)
    assert given is not None
    assert given.job.id == bound


async def test_hosts_and_remote_workers_get_the_time_limit_of_a_definition(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    host = await add_host(conn, tenant_id=tenant.id, name="rack-1", actor=DANA)
    await add_definition(conn, {"key": "tidy", "argv": ["/bin/true"], "timeout_seconds": 7}, actor=DANA)
    for options in ({}, {"timeout_seconds": 3, "priority": -1}):
        for place in ({}, {"host_id": host.id}):
            await enqueue_definition(conn, "tidy", {}, tenant_id=tenant.id, actor=DANA, **options, **place)

    claimed = await claim_for_worker(conn, uuid4(), tenant.id, ["tidy"], limit=10, lease=30)
    assert [one.job.timeout_seconds for one in claimed] == [7, 3]
    for expected in (7, 3):
        given = await claim_for_host(conn, host.id, lease=30)
        assert given is not None
        assert given.job.timeout_seconds == expected
        await complete(conn, given.lease, {}, Notes())


async def test_admission_checks_types_without_a_definition_as_well(conn):
    await conn.execute(
        """insert into atlas.job_types (key, input_schema) values ('report.build', '{"required": ["n"], "type": "object"}')"""
    )

    with pytest.raises(InvalidInput, match='"n" is a required property'):
        await admit(conn, NewJob("report.build", {}))
    made = await enqueue(conn, await admit(conn, NewJob("report.build", {"n": 1})), actor=DANA)
    assert (await load(conn, made.id))["definition_id"] is None
    await enqueue(conn, await admit(conn, NewJob("not.published", {"n": 1}, allow_unknown=True)), actor=DANA)


async def test_a_definition_s_key_and_rate_hold_its_jobs_until_they_are_removed(conn):
    limits = {"concurrency": 1, "concurrency_key": "{{ input.provider_id }}", "rate": "60/hour", "burst": 9}
    defined = await add_definition(conn, {**SYNC, **limits}, actor=DANA)
    assert defined.spec.model_dump(include=set(limits)) == limits
    for _ in range(3):
        await enqueue_definition(conn, "sync-dropbox", {"provider_id": "p", "path": "a"}, actor=DANA)
    worker = await given_worker(conn, "sync-dropbox")
    assert len(await claim(conn, worker, limit=5)) == 1

    await edit_definition(conn, "sync-dropbox", dict.fromkeys(limits), actor=DANA)
    assert len(await claim(conn, worker, limit=5)) == 2


async def test_the_claim_keeps_to_the_limit_of_a_definition(conn):
    await add_definition(conn, {**SYNC, "concurrency": 2}, actor=DANA)
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    for owner in (tenant.id, None):
        for _ in range(5):
            options = {} if owner is None else {"tenant_id": owner}
            await enqueue_definition(conn, "sync-dropbox", {"provider_id": "p", "path": "a"}, actor=DANA, **options)
    first, second = await given_worker(conn, "sync-dropbox"), await given_worker(conn, "sync-dropbox")

    taken = []
    for worker in (first, second, first, second):
        taken += await claim(conn, worker, limit=10)
    assert len(taken) == 2
