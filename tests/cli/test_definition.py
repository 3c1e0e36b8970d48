"""`atlas definition`, `atlas host`, and a worker that serves both named and all commands."""

import sys
from pathlib import Path
from uuid import uuid4

import orjson
import pytest

from atlas.cli.programs.demo import EVENTS, PROVIDER, load_demo
from atlas.cli.programs.examples import FOLDER, load_examples, read_examples
from atlas.engine.commands.definitions import edit_definition, find_definition, list_definitions
from atlas.engine.commands.spec import read_spec
from atlas.engine.triggers.fire_events import fire_due_events
from tests.support import DANA

COMMANDS = ["recompute-trained-tags", "recompute-zeroshot-tags", "sync-dropbox", "train-keyword-models"]
SYNC = str(FOLDER / "sync-dropbox.json")


async def test_a_definition_is_added_listed_edited_and_disabled(atlas, tmp_path):
    assert (
        await atlas("definition", "list")
    ).stdout == "There are no definitions. Add one with `atlas definition add FILE`.\n"
    added = await atlas("definition", "add", SYNC, "--json")
    assert added.document["key"] == "sync-dropbox"
    # A program beside its file is found wherever the command runs.
    assert added.document["programs"] == {"zoltag": str(FOLDER.parent / "programs" / "zoltag")}

    assert "yes     3600" in (await atlas("definition", "list")).stdout
    changes = tmp_path / "changes.json"
    changes.write_bytes(orjson.dumps({"description": "other"}))
    edited = await atlas("definition", "edit", "sync-dropbox", str(changes), "--timeout", "60", "--json")
    assert (edited.document["description"], edited.document["timeout_seconds"]) == ("other", 60)
    limited = await atlas("definition", "edit", "sync-dropbox", "--rate", "100/minute", "--burst", "5", "--json")
    assert (limited.document["rate"], limited.document["burst"]) == ("100/minute", 5)
    assert (await atlas("definition", "disable", "sync-dropbox")).stdout == "Definition sync-dropbox disabled.\n"
    assert (await atlas("definition", "list", "--active", "--json")).document == {"definitions": []}
    enabled = await atlas("definition", "edit", "sync-dropbox", "--enable", "--json")
    assert enabled.document["is_active"] is True


async def test_an_error_is_one_line(atlas, tmp_path):
    broken, empty = tmp_path / "broken.json", tmp_path / "empty.json"
    broken.write_text("{")
    empty.write_text('{"key": "x", "argv": ["sh"]}')

    assert "is not JSON" in (await atlas("definition", "add", str(broken))).refusal
    assert "cannot be read" in (await atlas("definition", "add", str(tmp_path / "none.json"))).refusal
    assert "argv.0: is neither the absolute path" in (await atlas("definition", "add", str(empty))).refusal
    assert "There is no definition x." in (await atlas("definition", "disable", "x")).refusal
    assert (await atlas("definition", "edit", "x")).code == 2


@pytest.mark.long
async def test_a_worker_runs_the_definitions_it_is_given(atlas):
    await atlas("online")
    await atlas("definition", "add", SYNC)
    payload = {"provider_id": str(uuid4()), "path_prefix": "-a b"}
    made = await atlas("enqueue", "sync-dropbox", "--input", orjson.dumps(payload).decode(), "--json")
    assert "provider_id" in (await atlas("enqueue", "sync-dropbox", "--input", "{}")).refusal

    assert "There is no handler for other." in (await atlas("worker", "--types", "other", "--drain")).refusal
    assert (await atlas("worker", "--types", "sync-dropbox", "--drain", "--json")).document == {"finished": 1}
    shown = (await atlas("jobs", "show", made.document["id"], "--json")).document
    assert shown["job"]["output"] == {"command": "sync-dropbox", "done": 4}
    assert shown["attempts"][0]["result"]["argv"][-1] == "--path-prefix=-a b"


async def test_a_host_is_added_with_its_server_instances(atlas):
    added = await atlas("host", "add", "rack-1", "--instance", "db-1", "--instance", "web-1", "--json")
    assert [instance["name"] for instance in added.document["instances"]] == ["db-1", "web-1"]
    more = await atlas("host", "add", "rack-1", "--instance", "web-2")
    assert "Its server instance web-2 has the id" in more.stdout

    # As after a command that was cut off between the two.
    again = await atlas("host", "add", "rack-1", "--instance", "web-2", "--instance", "web-3", "--instance", "web-3")
    assert "Its server instance web-3 has the id" in again.stdout

    assert "There is already a host rack-1." in (await atlas("host", "add", "rack-1")).refusal
    [listed] = (await atlas("host", "list", "--json")).document["hosts"]
    assert listed["id"] == added.document["id"]
    assert [instance["name"] for instance in listed["instances"]] == ["db-1", "web-1", "web-2", "web-3"]
    words = (await atlas("host", "list")).stdout
    assert all(f"{instance['name']} {instance['id']}" in words for instance in listed["instances"])


@pytest.mark.long
async def test_a_server_instance_is_renamed_moved_and_removed(atlas):
    await atlas("host", "add", "rack-1", "--instance", "db-1")
    other = (await atlas("host", "add", "rack-2", "--json")).document["id"]
    edited = await atlas("host", "instance", "edit", "db-1", "--name", "db-main", "--host", "rack-2")
    assert edited.stdout == "Server instance db-main updated. It is on rack-2.\n"
    unit = orjson.dumps({"serverInstanceId": await _id_of(atlas, "db-main")}).decode()
    made = (await atlas("enqueue", "SERVER_RESTART", "--input", unit, "--json")).document["id"]

    assert "give what to change" in (await atlas("host", "instance", "edit", "db-main")).refusal
    assert (
        "There is no host nowhere." in (await atlas("host", "instance", "edit", "db-main", "--host", "nowhere")).refusal
    )
    refused = (await atlas("host", "instance", "remove", "db-main")).refusal
    assert "has jobs: 1 queued. Wait until they have ended, or cancel them." in refused
    await atlas("jobs", "cancel", made)
    removed = (await atlas("host", "instance", "remove", "db-main", "--json")).document
    assert (removed["name"], removed["host_id"]) == ("db-main", other)
    assert "There is no server instance db-main." in (await atlas("host", "instance", "remove", "db-main")).refusal


async def _id_of(atlas, name):
    hosts = (await atlas("host", "list", "--json")).document["hosts"]
    [found] = [instance["id"] for host in hosts for instance in host["instances"] if instance["name"] == name]
    return found


async def test_the_examples_are_loaded_once_and_keep_what_was_changed(conn):
    keys = await load_examples(conn, actor=DANA)
    assert keys == sorted(read_examples())
    assert set(COMMANDS) <= set(keys)

    moved = {"timeout_seconds": 5, "programs": {"zoltag": "/elsewhere/zoltag"}}
    await edit_definition(conn, "sync-dropbox", moved, actor=DANA)
    assert await load_examples(conn, actor=DANA) == keys
    [sync] = [definition.spec for definition in await list_definitions(conn) if definition.spec.key == "sync-dropbox"]
    assert (sync.timeout_seconds, sync.programs) == (5, {"zoltag": str(FOLDER.parent / "programs" / "zoltag")})

    # A program that an operator put in its place is there, and stays.
    await edit_definition(conn, "sync-dropbox", {"programs": {"zoltag": sys.executable}}, actor=DANA)
    await load_examples(conn, actor=DANA)
    assert (await find_definition(conn, "sync-dropbox")).spec.programs == {"zoltag": sys.executable}


@pytest.mark.parametrize("key", sorted(read_examples()))
def test_every_example_is_a_definition_whose_program_is_there(key):
    spec = read_spec(read_examples()[key])

    program = Path(spec.programs[spec.argv[0]])
    assert program.parent == FOLDER.parent / "programs"
    assert program.stat().st_mode & 0o111


@pytest.mark.long
async def test_the_demo_runs_its_commands_and_its_trigger(atlas, conn):
    await atlas("online")
    await load_demo(conn, actor=DANA)
    await load_demo(conn, actor=DANA)
    published = await conn.fetch("select name from atlas.events order by seq")
    assert [row["name"] for row in published] == list(EVENTS)
    assert (await fire_due_events(conn)).fired == 1

    drained = await atlas("worker", "--types", ",".join(COMMANDS), "--drain", "--json")
    assert drained.document == {"finished": 4}, drained
    rows = await conn.fetch("select * from atlas.jobs where job_type = any ($1) order by job_type", COMMANDS)
    assert [(row["job_type"], row["status"]) for row in rows] == [(key, "succeeded") for key in COMMANDS]
    tagged, _, synced, _ = rows
    assert orjson.loads(tagged["input"]) == {"model": "siglip"}
    assert orjson.loads(synced["input"]) == {"provider_id": PROVIDER, "path_prefix": "/photos/2026"}
    assert synced["source"] == "event"
    # Until there is a job of a person the web pages offer a guide.
    assert await conn.fetchval("select count(*) from atlas.jobs where source = 'manual'") == 0
    shown = (await atlas("jobs", "show", str(tagged["id"]), "--json")).document
    program = str(FOLDER.parent / "programs" / "zoltag")
    expected = [program, "recompute-trained-tags", "--tenant-id", str(tagged["tenant_id"]), "--model=siglip"]
    assert shown["attempts"][0]["result"]["argv"] == expected
