"""Traces: enqueue, run and steps are one, in and out of Atlas by W3C `traceparent`; nothing without OpenTelemetry."""

import subprocess
import sys
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.outgoing.http import http_client
from atlas.tracing import current_traceparent, given_traceparent, is_traceparent
from atlas.workers.workflows import settle_intents
from tests.support import DANA

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What is traced during the test, by a provider that only it has."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return kept


def family(spans: InMemorySpanExporter) -> dict[str, str | None]:
    """The names of the spans, each with that of its parent."""
    found = spans.get_finished_spans()
    names = {one.context.span_id: one.name for one in found}
    return {one.name: None if one.parent is None else names.get(one.parent.span_id, "outside") for one in found}


@job("trace.works")
async def works(input: dict[str, Any]) -> dict[str, str | None]:
    async with http_client(
        transport=httpx.MockTransport(lambda sent: httpx.Response(200, json=[*sent.headers]))
    ) as http:
        sent = (await http.get("https://example.com")).json()
    return {"here": current_traceparent(), "sent": "traceparent" if "traceparent" in sent else None}


@job("trace.fails", max_retries=0)
async def fails(input: dict[str, Any]) -> None:
    raise ValueError("no paper")


@workflow("trace.brief")
async def brief(run: Any, input: dict[str, Any]) -> None:
    await run.step("collect", lambda: 7)
    await run.job("work", "trace.works", {})


async def test_a_job_is_traced_from_the_code_that_enqueues_it_to_its_handler(pool, drain, spans):
    async with pool.acquire() as conn:
        with trace.get_tracer("shop").start_as_current_span("order"):
            made = await enqueue(conn, NewJob("trace.works"), actor=DANA)
    await drain("trace.works")
    assert family(spans) == {"order": None, "enqueue trace.works": "order", "run trace.works": "enqueue trace.works"}
    found = await get_job(pool, made.id)
    [run] = [span for span in spans.get_finished_spans() if span.name == "run trace.works"]
    assert found.output["here"].startswith(f"00-{run.context.trace_id:032x}-{run.context.span_id:016x}-")
    assert found.output["sent"] == "traceparent"
    assert run.attributes["atlas.job_id"] == str(made.id)
    assert run.attributes["atlas.outcome"] == "succeeded"


async def test_a_failure_is_on_its_span(pool, given, drain, spans):
    await given("trace.fails")
    await drain("trace.fails")
    [run] = [span for span in spans.get_finished_spans() if span.name == "run trace.fails"]
    assert (run.status.status_code, run.status.description) == (trace.StatusCode.ERROR, "ValueError: no paper")
    [event] = run.events
    assert event.attributes["exception.type"] == "ValueError"
    assert 'raise ValueError("no paper")' in event.attributes["exception.stacktrace"]


async def test_a_run_its_steps_and_its_jobs_are_one_trace(pool, drain, spans):
    async with pool.acquire() as conn:
        await request_workflow(conn, SYSTEM_TENANT, "trace.brief", {}, DANA)
    await settle_intents(pool)
    await drain("ENGINE_RUN", "trace.works")
    names = family(spans)
    assert names["run trace.brief"] == "request trace.brief"
    assert names["step collect"] == "run trace.brief"
    assert "run trace.works" in names
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1


async def test_a_correlation_id_of_the_callers_own_is_kept(pool, given, drain, spans):
    [job_id] = await given("trace.works", correlation_id="order-4711")
    await drain("trace.works")
    assert (await get_job(pool, job_id)).correlation_id == "order-4711"
    assert family(spans)["run trace.works"] is None


async def test_a_traceparent_that_the_caller_gives_is_gone_on_with(pool, given, drain, spans):
    await given("trace.works", correlation_id=CALLER)
    await drain("trace.works")
    [run] = [span for span in spans.get_finished_spans() if span.name == "run trace.works"]
    assert f"{run.context.trace_id:032x}" == CALLER.split("-")[1]
    assert f"{run.parent.span_id:016x}" == CALLER.split("-")[2]


async def test_without_a_provider_nothing_is_traced(pool, given, drain):
    [job_id] = await given("trace.works")
    await drain("trace.works")
    found = await get_job(pool, job_id)
    assert (found.correlation_id, found.output) == (None, {"here": None, "sent": None})


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (CALLER, True),
        (CALLER.upper(), False),
        (CALLER.replace("b7ad6b7169203331", "0" * 16), False),
        ("01" + CALLER[2:], False),
        ("order-4711", False),
        (None, False),
    ],
)
def test_only_the_w3c_form_is_taken_for_a_traceparent(text, is_one):
    assert is_traceparent(text) == is_one
    assert given_traceparent(text) == (text if is_one else None)


def test_no_program_imports_opentelemetry_by_itself():
    code = (
        "import sys, atlas.workers.worker, atlas.engine.jobs.enqueue, atlas.outgoing.http;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
