"""The OpenAPI description is true: what it allows is answered as it says, and what it forbids is refused."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from jsonschema_rs import validator_for

from atlas.api.openapi.names import DESCRIPTIONS
from atlas.engine.commands.argv import fields_of
from atlas.engine.jobs.lists.job_list import STATUSES
from tests.support import PROOF, ROOT

EXAMPLES = 200 if PROOF else 1
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples"
CALLERS = [("all", "operator"), ("acme", "tenant_admin"), ("acme", "host"), ("acme", "worker")]
CONFIG = Path(__file__).parent / "schemathesis.toml"


@pytest.mark.long
@pytest.mark.timeout(3600 if PROOF else 300)
@pytest.mark.parametrize("who", CALLERS if PROOF else CALLERS[:1], ids=lambda who: who[1])
async def test_every_response_is_as_described(server, tmp_path, who):
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(CONFIG), "run"),
        *(f"{server.address}/openapi.json", "-H", f"Authorization: Bearer {server.world.tokens[who]}"),
        *("--checks", "all", "--phases", PHASES, "--max-examples", str(EXAMPLES), "--continue-on-failure"),
        *("--exclude-path-regex", "export|/live$", "--request-timeout", "30", "--no-color", "--warnings", "off"),
        *("--wait-for-schema", "120"),  # A busy machine may take longer than the 10 s of one request.
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()

    print(said[said.find("= SUMMARY") :])
    assert process.returncode == 0, said


async def test_the_description_is_served(operator, spec):
    assert (await operator.get("http://atlas.test/openapi.json")).json() == spec


def test_every_operation_names_its_roles_and_its_problems(spec):
    operations = [(path, method, one) for path, ones in spec["paths"].items() for method, one in ones.items()]

    assert len(operations) > 80
    for path, method, one in operations:
        assert one.get("summary"), (path, method)
        assert one.get("tags"), (path, method)
        assert {"429", "503"} <= one["responses"].keys(), (path, method)
        assert ("security" in one) == ("x-roles" in one), (path, method)
    assert "HTTPValidationError" not in spec["components"]["schemas"]


def operations(spec):
    return [one for ones in spec["paths"].values() for one in ones.values()]


def schema_of(spec, model, name):
    """The schema of a property, of its value where it may be null or is a map."""
    found = spec["components"]["schemas"][model]["properties"][name]
    found = next((one for one in found.get("anyOf", ()) if one != {"type": "null"}), found)
    return found.get("additionalProperties") or found


async def test_operations_have_readable_ids_and_say_what_they_do(spec):
    ids = [operation["operationId"] for operation in operations(spec)]

    assert len(ids) == len(set(ids))
    assert [id for id in ids if not re.fullmatch(r"[a-z]+(_[a-z]+){0,4}", id)] == []
    assert [operation["operationId"] for operation in operations(spec) if not operation.get("description")] == []
    assert {tag for operation in operations(spec) for tag in operation["tags"]} == {tag["name"] for tag in spec["tags"]}


async def test_every_name_is_described_and_no_description_is_of_nothing(spec):
    parameters = [one for operation in operations(spec) for one in operation.get("parameters", ())]
    undescribed = [parameter["name"] for parameter in parameters if not parameter["description"]]
    undescribed += [
        f"{model}.{name}"
        for model, schema in spec["components"]["schemas"].items()
        for name, one in schema.get("properties", {}).items()
        if not one["description"]
    ]

    assert undescribed == [], "describe them in api/openapi/names.py"
    used = {(parameter["name"], parameter["description"]) for parameter in parameters}
    for schema in spec["components"]["schemas"].values():
        used |= {(name, one["description"]) for name, one in schema.get("properties", {}).items()}
    assert [name for name, text in DESCRIPTIONS.items() if (name.rpartition(".")[2], text) not in used] == []


@pytest.mark.long
async def test_every_model_has_an_example_that_fits_it(spec):
    for model, schema in spec["components"]["schemas"].items():
        if "properties" in schema:
            checked = validator_for({"$ref": f"#/components/schemas/{model}", "components": spec["components"]})
            assert schema["examples"], model
            for example in schema["examples"]:
                assert checked.is_valid(example), (model, [error.message for error in checked.iter_errors(example)])


async def test_every_response_has_described_headers(spec):
    known = spec["components"]["headers"]
    for operation in operations(spec):
        for status, response in operation["responses"].items():
            names = set(response["headers"])
            assert "X-Request-Id" in names
            assert ("RateLimit" in names) == (bool(operation.get("x-roles")) and status != "401"), operation[
                "operationId"
            ]
            assert ("Retry-After" in names) == (status in ("429", "503")), operation["operationId"]
            assert names <= known.keys(), operation["operationId"]
    assert all(one["description"] and one["schema"] for one in known.values())


# Properties whose values the database knows, by its types.
SETS = {
    "actor_type": [("AuditEntry", "actor_type")],
    "audit_level": [("AuditEntry", "level")],
    "api_role": [("NewToken", "role"), ("Token", "role"), ("CurrentSession", "role")],
    "attempt_status": [("Attempt", "status")],
    "job_source": [("Job", "source"), ("WorkflowRun", "source"), ("Intent", "source")],
    "job_status": [("RunStep", "child_status")],
    "intent_status": [("Intent", "status")],
    "workflow_kind": [("Workflow", "kind")],
    "step_kind": [("RunStep", "kind")],
    "step_status": [("RunStep", "status")],
    "approval_kind": [("Approval", "kind")],
    "approval_status": [("Approval", "status")],
    "trigger_type": [("Trigger", "trigger_type"), ("NewTrigger", "trigger_type")],
    "misfire_policy": [("Trigger", "misfire"), ("NewTrigger", "misfire")],
    "fire_result": [("Fire", "result")],
    "recurring_outcome": [("RecurringRun", "outcome"), ("RecurringFunction", "last_outcome")],
    "policy_effect": [("PolicyRule", "effect"), ("RuleBody", "effect")],
}


def reasons_in(path):
    """The reasons that a module explains with; the gate's is of all of them."""
    text = (ROOT / path).read_text()
    return {"gate", *re.findall(r'Why\(\s*"(\w+)"', text), *re.findall(r"return (paused)\(", text)}


async def test_closed_sets_are_those_of_the_database_and_of_the_code(spec, conn):
    for name, places in SETS.items():
        values = await conn.fetchval(f"select enum_range(null::atlas.{name})::text[]")
        for model, property in places:
            assert set(schema_of(spec, model, property)["enum"]) == set(values), (model, property)
    of_job = reasons_in("engine/jobs/explain/explain_job.py")
    for model, reasons in (
        ("JobExplanation", of_job),
        ("RunExplanation", of_job | reasons_in("engine/workflows/explain.py") | {"job", "child"}),
        ("TriggerExplanation", reasons_in("engine/triggers/explain.py")),
        ("WorkerExplanation", reasons_in("engine/jobs/explain/explain_worker.py")),
    ):
        assert set(schema_of(spec, model, "reason")["enum"]) == reasons
    kinds = re.findall(r"^select '(\w+)'", (ROOT / "engine/sql/watch.sql").read_text(), re.M)
    kinds += re.findall(r"Alert\(\s*kind=\"(\w+)\"", (ROOT / "engine/alerts.py").read_text())
    assert set(schema_of(spec, "Alert", "kind")["enum"]) == set(kinds)
    checked = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'pauses_kind_check'"
    assert set(schema_of(spec, "Pause", "kind")["enum"]) == set(re.findall(r"'(\w+)'", await conn.fetchval(checked)))
    for model, property in (("EnqueuedJob", "status"), ("Job", "status"), ("JobExplanation", "status")):
        assert set(schema_of(spec, model, property)["enum"]) == set(STATUSES)


async def test_pages_find_the_cookie_and_what_their_changes_need(spec):
    schemes = spec["components"]["securitySchemes"]
    get, post = spec["paths"]["/api/v1/jobs"]["get"], spec["paths"]["/api/v1/jobs"]["post"]

    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "__Host-atlas")
    assert (schemes["csrf"]["in"], schemes["csrf"]["name"]) == ("header", "X-CSRF-Token")
    assert get["security"] == [{"token": []}, {"session": []}]
    assert post["security"] == [{"token": []}, {"session": [], "csrf": []}]
    assert spec["paths"]["/api/v1/worker/jobs/claim"]["post"]["security"] == [{"token": []}]


async def test_the_socket_is_described_and_says_so_to_a_plain_request(spec, admin):
    live = spec["paths"]["/api/v1/live"]["get"]
    answer = await admin.get("/live")

    assert {"101", "426", "401", "403", "429"} <= live["responses"].keys()
    frames = [one["$ref"].rpartition("/")[2] for one in live["x-frames"]["oneOf"]]
    assert [spec["components"]["schemas"][frame]["properties"]["type"]["const"] for frame in frames] == [
        "hello",
        "events",
        "refetch",
    ]
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
    assert answer.json()["type"] == "urn:atlas:problem:upgrade-required"


async def test_the_example_of_a_definition_is_filled_from_its_payload(spec, operator):
    [example] = spec["components"]["schemas"]["NewDefinition"]["examples"]
    place = f"/admin/jobs/definitions/{example['key']}"

    assert (await operator.post("/admin/jobs/definitions", json=example)).status_code == 201
    fields = {field for text in example["argv"] for field in fields_of(text)}
    assert fields == set(example["arg_schema"]["properties"])
    edited = await operator.patch(place, json={"max_attempts": 5, "limits": {"files": 99}})
    assert (edited.json()["max_retries"], edited.json()["limits"]["files"]) == (4, 99)
    edited = await operator.patch(place, json={"limits": {"memory_mb": 65}})
    assert (edited.json()["limits"]["memory_mb"], edited.json()["limits"]["files"]) == (65, 99)


async def test_the_documentation_is_a_page_without_other_hosts(world, operator):
    docs = await operator.get("http://atlas.test/docs")
    script = await operator.get("http://atlas.test/assets/docs.js")

    assert "//" not in docs.text.replace("<!doctype", "")  # no address of another host
    assert script.status_code == 200
    assert "javascript" in script.headers["content-type"]
    assert "'unsafe" not in docs.headers["content-security-policy"]
    assert "<script>" not in docs.text
    assert "style=" not in docs.text
    assert (await operator.get("http://atlas.test/assets/index.html")).status_code == 404
    assert (await operator.get("http://atlas.test/assets/..%2fapp.py")).status_code == 404
