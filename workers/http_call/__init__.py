"""HTTP_CALL: the job type that makes one HTTP request."""

from typing import TYPE_CHECKING

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import know_input
from atlas.settings import Settings
from atlas.workers.http_call.call_input import HttpCall

if TYPE_CHECKING:
    from atlas.workers.http_call.handler import HttpCaller

__all__ = ["HTTP_CALL", "HttpCall", "know_http_call", "register_http_call"]

HTTP_CALL = "HTTP_CALL"


def know_http_call() -> None:
    """Check the inputs of calls in this process, and take their secrets out, without making calls."""
    know_input(HTTP_CALL, HttpCall)


def register_http_call(settings: Settings) -> "HttpCaller":
    """Register HTTP_CALL in this process: workers serve it, and enqueueing checks its input.

    Refuses a wrong SSL_CERT_FILE. Called again, it replaces the caller.
    """
    # Imported here: programs that only check calls need not load the HTTP client.
    from atlas.outgoing.http import tls_context
    from atlas.workers.http_call.handler import HttpCaller

    tls_context()
    caller = HttpCaller(settings)

    @job(HTTP_CALL)
    async def make_call(input: HttpCall, ctx: AttemptContext) -> dict[str, object]:
        """Make an HTTP request, and keep the beginning of the response."""
        return await caller.call(input, ctx)

    return caller
