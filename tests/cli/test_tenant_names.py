"""Tenants by slug: in what every command prints, beside the id in its JSON, and in what it takes."""

import pytest
from typer.core import TyperGroup

from atlas.cli.command_table import COMMANDS, load_command

LISTS = [
    ("jobs list", "jobs"),
    ("token list", "tokens"),
    ("host list", "hosts"),
    ("trigger list", "triggers"),
    ("webhooks list", "webhooks"),
    ("hooks list", "hooks"),
    ("workflow requests", "requests"),
    ("workflow policy list", "rules"),
    ("audit tail", "events"),
]


@pytest.fixture
async def acme(atlas) -> str:
    """The id of a tenant that has one of everything."""
    id = (await atlas("tenant", "add", "acme", "--json")).document["id"]
    for made in (
        ("enqueue", "a.work", "--tenant", "acme"),
        ("token", "add", "--subject", "ci", "--role", "enqueuer", "--tenant", id),
        ("host", "add", "web-1", "--tenant", "acme"),
        ("trigger", "add", "--tenant", id, "--cron", "@daily", "--job-type", "a.work"),
        ("webhooks", "add", "https://example.com/hook", "--tenant", "acme", "--event", "job.failed"),
        ("hooks", "add", "order.paid", "--tenant", "acme"),
        ("workflow", "run", "wf", "--tenant", id, "--allow-unknown"),
        ("workflow", "policy", "add", "costly", "--effect", "block", "--spend-above", "5", "--tenant", "acme"),
    ):
        ran = await atlas(*made)
        assert ran.code == 0, ran
    return str(id)


@pytest.mark.long
async def test_every_list_names_the_tenant_by_slug_and_its_json_has_both(atlas, acme):
    for command, key in LISTS:
        shown = await atlas(*command.split())
        [*documents] = (await atlas(*command.split(), "--json")).document[key]
        own = [document for document in documents if document["tenant_id"] == acme]

        assert own, command
        assert {one["tenant"] for one in own} == {"acme"}, command
        assert acme not in shown.stdout or command == "audit tail", command
        if command != "audit tail":
            assert "acme" in shown.stdout, command


@pytest.mark.long
async def test_one_job_and_one_run_name_their_tenant(atlas, acme):
    [job] = (await atlas("jobs", "list", "--tenant", acme, "--json")).document["jobs"]
    [asked] = (await atlas("workflow", "requests", "--tenant", "acme", "--json")).document["requests"]
    one_job = await atlas("jobs", "show", job["id"])
    one_run = await atlas("workflow", "show", asked["id"])
    document = (await atlas("workflow", "show", asked["id"], "--json")).document

    assert "tenant    acme" in one_job.stdout
    assert "tenant     acme" in one_run.stdout
    assert (document["intent"]["tenant"], document["intent"]["tenant_id"]) == ("acme", acme)


def test_every_option_that_names_a_tenant_says_how():
    """By slug or id, wherever there is a database to look in."""
    silent = [
        f"{path} --tenant"
        for name in COMMANDS
        for path, command in leaves(name, load_command(name))
        for option in command.params
        if "--tenant" in option.opts and "slug or id" not in (option.help or "")
    ]
    assert silent == []


def leaves(path, command):
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from leaves(f"{path} {name}", one)
