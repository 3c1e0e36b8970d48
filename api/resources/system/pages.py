"""Routes beside the API: the web pages, its documentation, health and metrics."""

import re
import time

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from atlas.api.app_state import AppState
from atlas.api.http import page_files
from atlas.api.metrics.metrics import CONTENT_TYPE, Metrics
from atlas.api.problems import Forbidden
from atlas.api.routing import GuardedRoute, requires
from atlas.db.statements import fetch_value, statement
from atlas.errors import DatabaseError

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)
health = APIRouter(route_class=GuardedRoute, tags=["health"])

READY_SECONDS = 3.0
READY_AGAIN_SECONDS = 1.0
READY = statement("api/resources/system/sql/ready.sql")
SPILL = "set local work_mem = '64kB'"
LOCAL = ("127.0.0.1", "::1")
# What proxies add to a request. One of them is enough: it came through a proxy.
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
LOCAL_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
# The first parts of addresses that are never a web page's.
NO_PAGES = frozenset({"api", "assets", "docs", "hooks", "healthz", "readyz", "metrics", "openapi.json"})


class DeepLink(GuardedRoute):
    """Matches any address that a browser opens as a page, so that a link into the web pages works. The page itself says
    where there is none. Programs, which do not ask for HTML, still get a problem for an unknown address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if _asks_for_page(scope) else (Match.NONE, {})


deep_links = APIRouter(route_class=DeepLink, include_in_schema=False)


@router.get("/")
@requires()
async def first_page(request: Request) -> Response:
    return page_files.page(request)


@router.get("/docs")
@requires()
async def docs(request: Request) -> Response:
    return page_files.page(request, "docs.html")


@router.get("/assets/{name}")
@requires()
async def asset(request: Request, name: str) -> Response:
    return page_files.asset(request, name)


@deep_links.get("/{path:path}")
@requires()
async def deep_link(request: Request) -> Response:
    return page_files.page(request)


@health.get("/healthz", operation_id="check_health", summary="Whether the process runs")
@requires()
async def alive() -> dict[str, bool]:
    """It asks nothing of the database."""
    return {"ok": True}


@health.get("/readyz", operation_id="check_readiness", summary="Whether the database responds and can be written")
@requires()
async def ready(request: Request) -> dict[str, bool]:
    """503 while it does not or cannot. The database is asked at most once a second."""
    api: AppState = request.app.state.api
    if time.monotonic() - api.ready_at > READY_AGAIN_SECONDS:
        async with api.db.connection(within=READY_SECONDS) as conn, conn.transaction():
            await conn.execute(SPILL)
            if not await fetch_value(conn, READY):
                raise DatabaseError("The database is read-only.", remedy="Point the API at the primary.")
        api.ready_at = time.monotonic()
    return {"ok": True}


@health.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@requires()
async def show_metrics(request: Request) -> Response:
    """For operators and auditors of the whole installation; from this machine, by its local name, for everyone."""
    api: AppState = request.app.state.api
    if not _is_local(request):
        caller = await api.callers.identify(request)
        if caller.tenant_id is not None or caller.role not in ("operator", "auditor"):
            raise Forbidden("The metrics are about the whole installation.")
    metrics: Metrics = request.app.state.metrics
    return Response(await metrics.text(), media_type=CONTENT_TYPE)


def _asks_for_page(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    accepted: bytes = scope["atlas.headers"].get(b"accept", b"")
    return b"text/html" in accepted and scope["path"].split("/")[1] not in NO_PAGES


def _is_local(request: Request) -> bool:
    """True for a direct connection from this machine, to this machine by its local name.

    A proxied request may come from anywhere, and so may a page in a local browser whose own name was made to lead here.
    """
    headers = request.headers
    forwarded = any(name in headers for name in FORWARDED)
    return (
        not forwarded
        and request.client is not None
        and request.client.host in LOCAL
        and LOCAL_NAME.fullmatch(headers.get("host", "")) is not None
        and "authorization" not in headers
    )
