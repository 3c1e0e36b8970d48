"""The argv and the environment of a command are the template's, always."""

import base64
import os
from typing import Any

import orjson
import pytest

from atlas.errors import InvalidInput
from tests.support import some
from tests.workers.commands.conftest import RECORDER

HOSTILE = [
    *("; rm -rf /", "&& reboot", "|| true", "| cat", "> /tmp/x", "< /etc/passwd", "& sleep 9", "$(id)", "`id`"),
    *("${IFS}x", "$PATH", "$$", "!!", "*", "?", "[a-z]", "~", "~root", "a b", "  ", "\t", "\n", "a\nb\n", "\r\n", "\\"),
    *("'", '"', "'\"'\"'", "\\'", "a'b\"c", "#x", "%s%n%x", "%00", "..", "../../etc/passwd", "/etc/shadow", "."),
    *("{{ job.id }}", "{{tenant.id}}", "{{ value }}", "{{", "}}", "{% raw %}", "${{ x }}", "{0}", "<script>"),
    *("=", "a=b", "@/etc/passwd", "+x", "/x", "é", "💩", "\u202egnp.exe", "\ufeffx", "\u0000".replace("\0", "␀")),
    *("\x1b[31mred", "\x07", "\x7f", "x" * 3000, "", "true", "null", "0", "LD_PRELOAD=/x.so", "() { :; }; id"),
    *(" --flag", " -x", "a -x --y", "x\u0085y", "\u2028"),
]
DASHED = ["-", "--", "-x", "-rf", "--exec=id", "-o ProxyCommand=id", "--", "-\n"]
TEXT = {"type": "string"}


@pytest.fixture
async def recorder(define: Any) -> str:
    return await define(
        "record",
        RECORDER,
        *("--job={{job.id}}", "--whole", "{{ value }}", "--inside=<{{value}}>"),
        {"when": "maybe", "args": ["--maybe", "{{maybe}}"]},
        *("--", "{{value}}", "{{tenant.slug}}:{{value}}"),
        fields={"value": TEXT, "maybe": TEXT},
        required=["value"],
        env={"VALUE": "{{value}}", "MAYBE": "[{{maybe}}]", "FIXED": "x y", "PASSED": None, "MISSING": None},
    )


def recorded(attempt: Any) -> tuple[list[str], dict[str, str], list[str]]:
    argv, env, *rest = attempt["stdout_tail"].splitlines()
    # The kernel puts the interpreter of the script in front.
    arguments = base64.b64decode(argv).decode().split("\0")[1:-1]
    variables = [entry.partition("=") for entry in base64.b64decode(env).decode().split("\0")[:-1]]
    return arguments, {name: value for name, _, value in variables}, rest


async def test_hostile_values_reach_the_program_as_they_are_and_as_nothing_else(
    recorder, order, run_commands, story, pool, monkeypatch
):
    for name, value in {"PASSED": "worker's\nown", "LD_DEBUG": "", "BASH_ENV": "/x", "EXTRA": "1"}.items():
        monkeypatch.setenv(name, value)
    assert len(HOSTILE) >= 60
    jobs = {}
    for nth, value in enumerate(some(HOSTILE, every=3)):
        payload = {"value": value} | ({"maybe": "m" + value} if nth % 2 else {})
        jobs[await order(recorder, payload)] = payload

    await run_commands(concurrency=4)

    equal = 0
    for job_id, payload in jobs.items():
        job, attempt = await story(job_id)
        assert job.status == "succeeded", (payload, job.error)
        value, maybe = payload["value"], payload.get("maybe")
        argv, env, _ = recorded(attempt)
        assert argv == [
            attempt["result"]["argv"][0],
            *(f"--job={job_id}", "--whole", value, f"--inside=<{value}>"),
            *(["--maybe", maybe] if maybe else []),
            *("--", value, f"system:{value}"),
        ]
        given = {"MAYBE": f"[{maybe}]"} if maybe else {}
        assert env == {"VALUE": value, "FIXED": "x y", "PASSED": "worker's\nown", **given}
        assert attempt["result"]["argv"] == argv
        equal += 1
    print(f"{equal} of {len(jobs)} hostile payloads: argv and environment equal to the template")


async def test_a_value_that_would_be_an_option_never_becomes_a_job(recorder, order, pool):
    for value in [*DASHED, "a\0b"]:
        with pytest.raises(InvalidInput):
            await order(recorder, {"value": value})
    assert await pool.fetchval("select count(*) from atlas.jobs") == 0


async def test_the_longest_variable_that_is_accepted_can_be_started_with(define, order, run_commands, story):
    key = await define("long", 'printf %s "${#NAME}"', fields={"value": TEXT}, env={"NAME": "{{value}}"})
    longest = 128 * 1024 - 1 - len("NAME=")
    job_id = await order(key, {"value": "x" * longest})
    with pytest.raises(InvalidInput, match="too long for the variable NAME"):
        await order(key, {"value": "x" * (longest + 1)})
    await run_commands()

    job, attempt = await story(job_id)
    assert (job.status, attempt["stdout_tail"]) == ("succeeded", str(longest))


async def test_a_payload_that_was_changed_in_the_database_is_refused_before_the_run(
    recorder, order, run_commands, story, owner
):
    bad = ["--exec=id", 5, None, ["x"]]
    jobs = [await order(recorder, {"value": "x"}) for _ in bad]
    for job_id, value in zip(jobs, bad, strict=True):
        await owner.execute(
            "update atlas.jobs set input = jsonb_build_object('value', $2::jsonb) where id = $1",
            job_id,
            orjson.dumps(value).decode(),
        )

    await run_commands()
    for job_id in jobs:
        job, attempt = await story(job_id)
        assert (job.status, job.error["type"], attempt["pid"]) == ("failed", "PermanentError", None)


async def test_a_program_runs_alone_without_rights_in_a_folder_of_its_own(recorder, order, run_commands, story):
    job_id = await order(recorder, {"value": "x"})
    await run_commands()

    _, attempt = await story(job_id)
    _, _, (uid, folder, stdin) = recorded(attempt)
    assert stdin == "/dev/null"
    assert str(job_id) in folder
    assert not os.path.exists(folder)
    if os.geteuid() == 0:
        assert 62_000 <= int(uid) < 63_000
