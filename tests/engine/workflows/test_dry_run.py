"""A dry run decides what it can, names what it cannot, and does nothing."""

from jsonschema_rs import validator_for

from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.declared.check import check_document
from atlas.engine.workflows.declared.dry_run import dry_run
from atlas.engine.workflows.declared.examples import example_workflows
from atlas.engine.workflows.declared.schema import document_schema
from atlas.engine.workflows.declared.store import save_workflow
from atlas.engine.workflows.declared.targets import StepTarget, load_targets
from tests.engine.workflows.kit import APPROVER
from tests.engine.workflows.test_declared import doc

EXAMPLES = {workflow["key"]: workflow for workflow in example_workflows()}
MAIL = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}


def follow(document, input=None, outputs=None, targets=None):
    return dry_run(document, input or {}, outputs or {}, targets or {}, requested_by="dana")


def decisions(found):
    return {step.id: step.decision for step in found.steps}


def test_what_is_known_is_filled_in_and_the_rest_is_named():
    found = follow(EXAMPLES["daily-brief"], {"to": "ann@example.com", "topic": "tea"})

    publish, mail = found.steps
    assert found.ok
    assert (publish.decision, publish.target) == ("runs", "Send the brief about tea?")
    assert (mail.decision, mail.reason) == ("depends", "Its condition is decided by the output of publish.")
    assert mail.inputs[0]["subject"] == "Brief: tea"
    assert mail.inputs[0]["text"].endswith("{{ steps.publish.output.by }}.")
    assert [str(one) for one in mail.pending] == ["steps[1].with.text: is known when publish has ended"]
    assert [one.field for one in found.pending] == ["output.approved", "output.sent"]


def test_outputs_that_are_supposed_decide():
    input = {"to": "ann@example.com", "topic": "tea"}
    approved = follow(EXAMPLES["daily-brief"], input, {"publish": {"approved": True, "by": "ben"}})
    rejected = follow(EXAMPLES["daily-brief"], input, {"publish": {"approved": False, "by": "ben"}})

    assert decisions(approved) == {"publish": "runs", "mail": "runs"}
    assert approved.steps[1].inputs[0]["text"] == "Nothing new.\n\nApproved by ben."
    assert approved.output == {"approved": True, "sent": True}
    assert decisions(rejected) == {"publish": "runs", "mail": "skipped"}
    assert rejected.output == {"approved": False, "sent": False}


def test_a_skipped_step_takes_those_that_need_it_along_and_an_undecided_one_leaves_them_undecided():
    found = follow(
        doc(
            {"id": "off", "if": "input.n > 5", "sleep": "1m"},
            {"id": "after_off", "needs": ["off"], "sleep": "1m"},
            {"id": "ask", "approval": "Go?"},
            {"id": "maybe", "needs": ["ask"], "if": "steps.ask.output.approved", "sleep": "1m"},
            {"id": "after_maybe", "needs": ["maybe"], "sleep": "{{ input.n }}"},
        ),
        {"n": 3},
    )

    expected = {"off": "skipped", "after_off": "skipped", "ask": "runs", "maybe": "depends", "after_maybe": "depends"}
    assert decisions(found) == expected
    assert found.steps[1].reason == "It needs off, which would be skipped."
    assert found.steps[4].target == 3


def test_items_are_counted_and_the_first_are_shown():
    found = follow(
        doc(
            {"id": "send", "each": "{{ input.to }}", "job": "mail", "with": {"to": "{{ item }}", "n": "{{ index }}"}},
            {"id": "list", "job": "mail"},
            {
                "id": "later",
                "needs": ["list"],
                "each": "{{ steps.list.output }}",
                "event": "e",
                "with": {"x": "{{ item }}"},
            },
        ),
        {"to": [f"r{number}" for number in range(25)]},
    )

    send, _, later = found.steps
    assert (send.items, len(send.inputs), send.inputs[9]) == (25, 10, {"to": "r9", "n": 9})
    assert (later.items, later.inputs) == (None, [{"x": "{{ item }}"}])
    assert [one.field for one in later.pending] == ["steps[2].each", "steps[2].with.x"]


def test_what_would_fail_is_found_before_it_does():
    target = StepTarget("job type", True, [], MAIL, has_formats=False)
    unknown = StepTarget("job type", False, ["EMAIL_SEND"], {}, has_formats=False)
    found = follow(
        doc(
            {"id": "gone", "job": "EMAIL_SENT", "with": {"to": "{{ input.nothing }}"}},
            {"id": "after", "needs": ["gone"], "sleep": "1m"},
            {"id": "wrong", "job": "EMAIL_SEND", "with": {"to": 5}},
            {"id": "long", "sleep": "{{ 'soon' }}"},
            {"id": "no_list", "each": "{{ input.n }}", "job": "EMAIL_SEND"},
            {"id": "new", "job": "EMAIL_SENT"},
        ),
        {"n": 1},
        targets={("job", "EMAIL_SEND"): target, ("job", "EMAIL_SENT"): unknown},
    )

    assert not found.ok
    failing = {step.id: [str(error) for error in step.errors] for step in found.steps if step.errors}
    assert failing == {
        "gone": ["steps[0].with.to: {{ input.nothing }}: there is no 'nothing'"],
        "wrong": ['steps[2].with.to: the value is not of type "string"'],
        "long": ["steps[3].sleep: 'soon' is neither a duration nor a time"],
        "no_list": ["steps[4].each: is not a list of at most 1000 items"],
    }
    assert decisions(found)["after"] == "unreached"
    [warning] = found.steps[5].warnings
    assert str(warning) == "steps[5].job: nothing has published the job type 'EMAIL_SENT'; similar: EMAIL_SEND"


def test_a_document_or_an_input_that_is_refused_is_followed_no_further():
    assert [*map(str, follow({"key": "d"}).errors)] == [*map(str, check_document({"key": "d"}))] != []
    wrong = follow(EXAMPLES["daily-brief"], {"to": 5, "topic": "tea"}, {"none": 1})
    assert [error.field for error in wrong.errors] == ["outputs.none", "input.to"]
    assert wrong.steps == []


def test_what_is_shown_is_bounded():
    steps = [{"id": f"s{n}", "event": "e", "with": {"x": "{{ input.x }}"}} for n in range(20)]
    found = follow(doc(*steps), {"x": "y" * 100_000})

    assert found.is_shortened
    assert sum(len(step.inputs) for step in found.steps) == 10


async def test_targets_are_what_is_published(kit):
    steps = [{"job": "wf.double"}, {"job": "wf.duble"}, {"workflow": "d"}, {"workflow": "dd"}, {"job": 5}, 5]
    async with kit.pool.acquire() as conn:
        await publish_types(conn, [registered()["wf.double"]])
        await save_workflow(conn, doc({"id": "a", "sleep": 0}, inputSchema=MAIL), actor=APPROVER)
        found = await load_targets(conn, SYSTEM_TENANT, {"steps": steps})
        nothing = await load_targets(conn, SYSTEM_TENANT, {"steps": {}})

    assert nothing == {}
    known = {name: (one.is_known, one.near) for (_, name), one in found.items()}
    assert known == {"wf.double": (True, []), "wf.duble": (False, ["wf.double"]), "d": (True, []), "dd": (False, ["d"])}
    assert found["workflow", "d"].schema == MAIL


def test_the_schema_for_editors_is_the_one_of_the_checker():
    schema = document_schema()
    fits = validator_for(schema)
    for one in EXAMPLES.values():
        assert fits.is_valid(one)
    for wrong in (
        doc({"id": "a", "jobs": "x"}),
        doc({"id": "a b", "job": "x"}),
        doc({"id": "a", "job": "x", "retries": 101}),
        doc({"id": "a", "job": "x", "onFailure": "stop"}),
        doc(),
        {"steps": [{"id": "a", "job": "x"}]},
    ):
        assert not fits.is_valid(wrong)
        assert check_document(wrong) != []
    for model in (schema, *schema["$defs"].values()):
        assert [name for name, one in model["properties"].items() if not one.get("description")] == []
