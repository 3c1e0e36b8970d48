"""Twenty planted secrets go through payload, argv, environment, output, errors, logs, progress, audit and retries.

They are looked for in everything the database holds and everything that was logged: in clear, and in the shapes that a
text takes on its way.
"""

import base64
import io
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from pydantic import BaseModel, Field

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob, make_dedupe_key
from atlas.engine.jobs.verdicts import PermanentError
from atlas.logs import configure_logs
from atlas.workers.commands.types import load_command_types
from tests.support import DANA
from tests.workers.commands.conftest import RECORDER

CANARIES = [f"cänary-{n:02d}/\"{'x' * n}'{n:02d}end{n * 7919}" for n in range(20)]
SECRET = {"type": "string", "x-secret": True}
NO_DELAY = {"name": "custom", "base": 0, "factor": 1, "cap": 0, "jitter": 0}
SEEN: list[str] = []


class Token(BaseModel):
    token: str = Field(json_schema_extra={"x-secret": True})
    way: str


@job("canary.handler", max_retries=1, retry={**NO_DELAY})
async def handler(input: Token, ctx: JobContext) -> Any:
    """Reveals its secret in every way it knows."""
    SEEN.append(input.token)
    ctx.log.warning("signing in", token=input.token)
    logging.getLogger("a.library").error("request failed: %s", {"authorization": input.token})
    await ctx.progress(50, f"with {input.token}")
    ctx.audit("REVEALED", message=f"as {input.token}", meta={"token": input.token, input.token: [input.token]})
    match input.way:
        case "answer":
            return {"token": input.token, "nested": [{"deep": repr(input.token)}]}
        case "permanent":
            raise PermanentError(f"refused {input.token}", remedy=f"not {input.token}")
        case _:
            try:
                raise KeyError(input.token)
            except KeyError as error:
                raise RuntimeError("x" * 1990 + input.token) from error


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that is logged, as Atlas's programs log it."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    configure_logs("debug", json=True)
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(lines := io.StringIO())
    yield lines
    root.handlers[:] = before
    root.setLevel(level)


def shapes(secret: str) -> list[bytes]:
    encoded = secret.encode()
    found = [encoded, encoded.hex().encode(), quote(secret, safe="").encode()]
    found += [base64.b64encode(b"x" * n + encoded)[4:-4] for n in range(3)]
    found += [orjson.dumps(secret)[1:-1], repr(secret)[1:-1].encode(), ascii(secret)[1:-1].encode()]
    # A piece is as bad: its end, and its beginning with the quote.
    return [*found, secret.rpartition("'")[2].encode(), secret[:12].encode()]


async def test_only_the_program_and_the_handler_see_a_planted_secret(define, order, drain, pool, dump, logged, story):
    fields = {"token": SECRET, "open": {"type": "string"}}
    terms: dict[str, Any] = {"fields": fields, "max_retries": 1, "retry_policy": NO_DELAY}
    tell = 'echo "$T"; echo "$T" >&2; printf "%s" "$T" | base64 -w0; echo; echo "::progress 10 $T"; echo "::output {\\"n\\": 1}"'
    await define("record", RECORDER, "--token={{token}}", "--", "{{open}}", **terms, env={"T": "{{token}}"})
    await define("received", tell, **terms, env={"T": "{{token}}"})
    await define("fails", tell + "; exit 4", "--", "{{token}}", **terms, env={"T": "{{token}}"})
    await define("floods", 'yes "$T" | head -c 200000; exit 1', **terms, env={"T": "{{token}}"})
    jobs = []
    for nth, canary in enumerate(CANARIES):
        payload = {"token": canary, "open": f"open-{nth}"}
        key = ("record", "received", "fails", "floods", "answer", "permanent", "raise")[nth % 7]
        if nth % 7 < 4:
            dedupe = make_dedupe_key(key, None, payload)
            jobs.append((key, canary, await order(key, payload, dedupe_key=dedupe)))
        else:
            async with pool.acquire() as conn:
                request = NewJob("canary.handler", {"token": canary, "way": key})
                jobs.append((key, canary, (await enqueue(conn, request, actor=DANA)).id))

    await drain("canary.handler", load_types=load_command_types)

    held, lines = await dump(), logged.getvalue().encode()
    found = [
        (nth, shape)
        for nth, canary in enumerate(CANARIES)
        for shape in shapes(canary)
        if shape in held or shape in lines
    ]
    print(f"{len(CANARIES)} canaries in {len(held):,} bytes stored and {len(lines):,} logged: seen {len(found)} times")
    assert found == []
    assert b"[secret " in held
    assert b"[secret " in lines
    assert await pool.fetchval("select count(*) from atlas.job_secrets") == len(CANARIES)

    # They did reach those they were meant for.
    assert {canary for key, canary, _ in jobs if key in ("answer", "permanent", "raise")} == set(SEEN)
    for key, _, job_id in jobs:
        job, attempt = await story(job_id)
        wanted = "succeeded" if key in ("record", "received", "answer") else "failed"
        assert job.status == wanted, (key, job.error)
        if key == "received":
            assert attempt["stdout_tail"].startswith("[secret ")
            assert job.progress["message"].startswith("[secret ")


async def test_a_secret_that_programs_quote_is_not_stored(define, order, run_commands, story):
    quote = """#!/bin/bash
    : > "$T"; ls --quoting-style=shell-escape; ls --quoting-style=c; ls -b; printf '%q\\n' "$T"
    set -x; true "$T"; exit 3
    """
    env = {"T": "{{token}}", "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    await define("quote", quote, fields={"token": SECRET}, env=env)
    job_id = await order("quote", {"token": "schlüssel des gärtners"})
    await run_commands()

    job, attempt = await story(job_id)
    assert attempt["stdout_tail"].count("[secret ") == 4
    assert attempt["stderr_tail"].count("[secret ") == 1
    assert not any(piece in f"{job} {attempt}" for piece in ("schl", "ssel", "rtner", r"\303"))


async def test_a_long_message_is_not_cut_within_a_secret(define, order, run_commands, story):
    tell = 'echo "::progress 10 $(head -c 480 /dev/zero | tr "\\0" x)$T"'
    await define("long", tell, fields={"token": SECRET}, env={"T": "{{token}}", "PATH": "/usr/bin:/bin"})
    job_id = await order("long", {"token": "hunter22-and-more-than-that"})
    await run_commands()

    job, _ = await story(job_id)
    assert job.progress["message"] == "x" * 480


async def test_the_program_gets_its_secret_in_clear_and_the_record_of_its_argv_does_not(
    define, order, drain, story, program
):
    check = """#!/bin/sh
    [ "$1" = "--token=hunter22" ] && [ "$T" = hunter22 ] && echo "::output {\\"right\\": true}"
    """
    await define("check", check, "--token={{token}}", fields={"token": SECRET}, env={"T": "{{token}}"})
    job_id = await order("check", {"token": "hunter22"})
    await drain("test.noop", load_types=load_command_types)

    job, attempt = await story(job_id)
    assert job.output == {"right": True}
    assert attempt["result"]["argv"][1].startswith("--token=[secret ")
