"""What commands say about wrong input: every mistake, by the name that the person typed."""

import json

import pytest

from tests.cli.test_over_http import atlas, quiet, remote, server, settings

__all__ = ["atlas", "quiet", "remote", "server", "settings"]

DOCUMENT = {
    "key": "a/b",
    "colour": 1,
    "steps": [
        {"id": "a", "jbo": "x.y"},
        {"id": "b", "needs": ["zz"], "job": "x.work"},
        {"id": "c", "needs": ["d"], "job": "x"},
        {"id": "d", "needs": ["c"], "job": "x"},
        {"id": "e", "sleep": "soon", "retries": 2},
        {"id": "f", "needs": ["a"], "job": "x", "with": {"a": "{{ steps.a.out }}", "b": "{{ oops"}},
    ],
    "output": "{{ nope }}",
}
WRONG = [
    *("steps[0].jbo", "colour", "key", "steps[0]", "steps[1].needs[0]", "steps[2].needs"),
    *("steps[4].retries", "steps[4].sleep", "steps[5].with.b", "output"),
]


async def test_the_check_of_a_workflow_names_every_mistake(atlas, tmp_path):
    (tmp_path / "order.json").write_text(json.dumps(DOCUMENT))
    ran = await atlas("workflow", "check", "order.json", "--json")

    assert ran.code == 1
    assert [error["field"] for error in ran.document["error"]["errors"]] == WRONG
    assert all(f"{field}: " in ran.stderr for field in WRONG)


async def test_a_trigger_names_the_options_that_it_lacks(atlas):
    nothing = await atlas("trigger", "add", "--json")
    half = await atlas("trigger", "add", "--tenant", "acme", "--cron", "@daily", "--json")

    assert (nothing.code, half.code) == (2, 2)
    for options in ("--tenant SLUG", "--cron EXPRESSION or --event NAME", "--job-type TYPE, --definition KEY"):
        assert options in nothing.document["error"]["message"]
    assert half.document["error"]["message"].endswith(
        "also give one of --job-type TYPE, --definition KEY and --workflow KEY"
    )


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("--cron 99 --job-type x.work", "--cron: has 1 fields instead of 5"),
        ("--cron @daily --job-type x.work --misfire never", "--misfire: "),
        ("--event a.b --timezone UTC --job-type x.work", "--timezone: does not apply to"),
        ("--cron @daily --job-type x.work --workflow w", "name one of --definition, --job-type, --workflow"),
    ],
)
async def test_a_trigger_names_the_options_that_are_wrong(atlas, remote, options, wrong):
    for ask in (atlas, remote):
        refusal = (await ask("trigger", "add", "--tenant", "acme", *options.split())).refusal
        assert wrong in refusal
        assert "cron_expr" not in refusal
