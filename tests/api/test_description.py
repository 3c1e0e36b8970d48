"""The OpenAPI description is true: what it allows is answered as it says, and what it forbids is refused."""

import asyncio
import sys
from pathlib import Path

import pytest

from atlas.engine.commands.argv import fields_of
from tests.support import PROOF

EXAMPLES = 200 if PROOF else 2
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples,fuzzing"
CALLERS = [("all", "operator"), ("acme", "tenant_admin"), ("acme", "host"), ("acme", "worker")]
CONFIG = Path(__file__).parent / "schemathesis.toml"


@pytest.mark.parametrize("who", CALLERS if PROOF else CALLERS[:1], ids=lambda who: who[1])
async def test_every_response_is_as_described(server, tmp_path, who):
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(CONFIG), "run"),
        *(f"{server.address}/openapi.json", "-H", f"Authorization: Bearer {server.world.tokens[who]}"),
        *("--checks", "all", "--phases", PHASES, "--max-examples", str(EXAMPLES), "--continue-on-failure"),
        *("--exclude-path-regex", "export", "--request-timeout", "30", "--no-color", "--warnings", "off"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()

    print(said[said.find("= SUMMARY") :])
    assert process.returncode == 0, said


async def test_every_operation_names_its_roles_and_its_problems(world, operator):
    spec = (await operator.get("http://atlas.test/openapi.json")).json()
    operations = [(path, method, one) for path, ones in spec["paths"].items() for method, one in ones.items()]

    assert len(operations) > 80
    for path, method, one in operations:
        assert one.get("summary"), (path, method)
        assert one.get("tags"), (path, method)
        assert {"429", "503"} <= one["responses"].keys(), (path, method)
        assert ("security" in one) == ("x-roles" in one), (path, method)
    assert "HTTPValidationError" not in spec["components"]["schemas"]


async def test_the_example_of_a_definition_is_filled_from_its_payload(world, operator):
    spec = (await operator.get("http://atlas.test/openapi.json")).json()
    [example] = spec["components"]["schemas"]["NewDefinition"]["examples"]
    place = f"/admin/jobs/definitions/{example['key']}"

    assert (await operator.post("/admin/jobs/definitions", json=example)).status_code == 201
    fields = {field for text in example["argv"] for field in fields_of(text)}
    assert fields == set(example["arg_schema"]["properties"])
    edited = await operator.patch(place, json={"max_attempts": 5, "limits": {"files": 99}})
    assert (edited.json()["max_retries"], edited.json()["limits"]["files"]) == (4, 99)
    edited = await operator.patch(place, json={"limits": {"memory_mb": 65}})
    assert (edited.json()["limits"]["memory_mb"], edited.json()["limits"]["files"]) == (65, 99)


async def test_the_first_page_leads_to_documentation_without_other_hosts(world, operator):
    first = await operator.get("http://atlas.test/")
    docs = await operator.get("http://atlas.test/docs")
    script = await operator.get("http://atlas.test/assets/docs.js")

    assert 'href="/docs"' in first.text
    assert "//" not in docs.text.replace("<!doctype", "")  # no address of another host
    assert script.status_code == 200
    assert "javascript" in script.headers["content-type"]
    assert "'unsafe" not in docs.headers["content-security-policy"]
    for page in (first, docs):
        assert "<script>" not in page.text
        assert "style=" not in page.text
    assert (await operator.get("http://atlas.test/assets/index.html")).status_code == 404
    assert (await operator.get("http://atlas.test/assets/..%2fapp.py")).status_code == 404
