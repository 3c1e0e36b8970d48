"""OpenTelemetry traces, in a process that has set up a tracer provider: enqueue, run and steps become one trace.

A trace goes from process to process as a W3C `traceparent`, which is the job's correlation id unless the caller gave
another. Nothing is imported here: a process that traces has loaded OpenTelemetry itself, and any other pays one look at
the loaded modules.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from atlas.version import __version__

# https://www.w3.org/TR/trace-context/#traceparent-header, version 00. All zeros are not an id.
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


def is_traceparent(text: str | None) -> bool:
    """True for the W3C form of a place in a trace."""
    return text is not None and _TRACEPARENT.fullmatch(text) is not None


def active_tracer() -> Any | None:
    """The tracer of Atlas, or None in a process that does not trace."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace.get_tracer("atlas", __version__)


def current_traceparent() -> str | None:
    """The running code's place in a trace."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    place = trace.get_current_span().get_span_context()
    return f"00-{place.trace_id:032x}-{place.span_id:016x}-{place.trace_flags:02x}" if place.is_valid else None


def given_traceparent(header: str | None) -> str | None:
    """A request's place in a trace: that of its span here, or its header. W3C says to ignore a header that is wrong."""
    return current_traceparent() or (header if is_traceparent(header) else None)


def continued(correlation_id: str | None) -> bool:
    """True where the trace of the running code goes on with a job: it has no correlation id, or one of this trace."""
    if correlation_id is None:
        return True
    here = current_traceparent()
    return here is not None and is_traceparent(correlation_id) and correlation_id[:35] == here[:35]


@contextmanager
def span(
    name: str, kind: str = "INTERNAL", *, parent: str | None = None, attributes: Mapping[str, Any] | None = None
) -> Iterator[Any | None]:
    """A span around the block, below the running one or a `traceparent`. None where the process does not trace."""
    tracer = active_tracer()
    if tracer is None:
        yield None
        return
    trace: Any = sys.modules["opentelemetry.trace"]
    options = {"kind": trace.SpanKind[kind], "attributes": attributes, "context": _context(trace, parent)}
    with tracer.start_as_current_span(name, **options) as opened:
        yield opened


def may_trace() -> bool:
    """False in a process that has not loaded OpenTelemetry. What runs very often asks this before it opens a span."""
    return "opentelemetry.trace" in sys.modules


def name_span(name: str) -> None:
    """Give the running span a better name, where the process traces."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        trace.get_current_span().update_name(name)


def fail_span(opened: Any, message: str, *, kind: str = "", stack: str = "") -> None:
    """Mark a span as failed, with the error as an event."""
    trace: Any = sys.modules["opentelemetry.trace"]
    opened.set_status(trace.Status(trace.StatusCode.ERROR, message))
    opened.add_event("exception", {"exception.type": kind, "exception.message": message, "exception.stacktrace": stack})


def _context(trace: Any, parent: str | None) -> Any | None:
    """The context below a `traceparent`; None is the present one."""
    match = None if parent is None else _TRACEPARENT.fullmatch(parent)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    place = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(place))
