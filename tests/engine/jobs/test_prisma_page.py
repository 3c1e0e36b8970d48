"""docs/prisma.md: its examples run one after the other, and its column is added as it says."""

import ast
import inspect
import re
import textwrap
from typing import Any

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.jobs.switches.gate import switch
from atlas.prisma_client.read_schema import parse_schema
from tests.support import DANA, ROOT, given_tenant, publish
from tests.test_schema import differences

PAGE = (ROOT / "docs" / "prisma.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for text in found]


async def test_the_examples_of_the_page_run(conn, owner, database_url, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", database_url)
    await given_tenant(conn, "demo")
    await publish(conn, "report.build", "invoice.send", "invoice.print", "invoice.thank")
    await switch(conn, online=True, actor=DANA)
    await owner.execute(blocks("sql")[0])
    names: dict[str, Any] = {}
    try:
        for text in blocks("python")[1:]:  # the first is the file of the handlers
            code = compile(text, "docs/prisma.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done = eval(code, names)
            if inspect.isawaitable(done):
                await done
    finally:
        await names["pool"].close()

    assert "claim" in capsys.readouterr().out
    assert names["count"] == 3
    assert await conn.fetchval("select state from public.invoices") == "paid"
    statuses = dict(await conn.fetch("select job_type, min(status::text) from atlas.jobs group by 1"))
    assert statuses == dict.fromkeys(("report.build", "invoice.send", "invoice.print", "invoice.thank"), "succeeded")
    assert await cross_check(conn) == []


async def test_the_column_of_the_page_is_drawn_as_it_is_built(owner):
    [drawn], [built] = blocks("prisma"), [text for text in blocks("text") if text.startswith("alter table")]
    [(model, line)] = re.findall(r"model (\w+) \{\n(.*)\n\}", drawn)
    schema = (ROOT / "schema.prisma").read_text()
    changed = re.sub(rf"(model {model} \{{\n)", rf"\1{line}\n", schema)
    await owner.execute("set search_path = atlas")

    assert len(await differences(owner, parse_schema(changed))) == 1
    await owner.execute(built)
    assert await differences(owner, parse_schema(changed)) == []
