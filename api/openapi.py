"""The OpenAPI description: roles, problem responses, and the body of a job, which FastAPI does not know."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from atlas.api.models.jobs import MOST_JOBS, NewJobBody
from atlas.api.problems import MEDIA_TYPE, Problem
from atlas.api.routing import PREFIX, GuardedRoute, rules_of
from atlas.engine.tokens import ROLES

ABOUT = (
    "Jobs, workflows, schedules and the audit log. Programs send a token as "
    "`Authorization: Bearer atl_…`; people sign in with one at `/api/v1/session`. The tenant comes from the "
    "credential; an operator, who has none, names one with `?tenant=`. "
    "Every error has one shape, Problem. HEAD works wherever GET does, but for a host that fetches its next job."
)
REFERENCE = "#/components/schemas/{model}"
DESCRIPTIONS = {
    401: "No credential, or none that is valid now.",
    403: "The caller may not do this.",
    404: "It does not exist, or not for this caller.",
    409: "It does not fit the state that the thing is in.",
    408: "The body takes too long to arrive.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is not valid; `errors` names each field and reason.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "The database cannot be reached; `Retry-After` says when to try again.",
}
BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A call that is repeated with the same key gets the first response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}
CORRELATION_ID = {
    "name": "X-Correlation-Id",
    "in": "header",
    "required": False,
    "description": "The correlation id of jobs that have none of their own.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
TENANT = {
    "name": "tenant",
    "in": "query",
    "required": False,
    "description": "Slug or id of the tenant that is meant; callers who belong to one may only name that one.",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
}


def describe(app: FastAPI) -> None:
    """Let the application describe itself; the description is built when it is first requested."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    routes = [_without_head(route) for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    spec = get_openapi(title=app.title, version=app.version, description=ABOUT, routes=routes)
    schemas: dict[str, Any] = spec["components"]["schemas"]
    _, models = models_json_schema([(NewJobBody, "validation"), (Problem, "serialization")], ref_template=REFERENCE)
    schemas.update(models["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    spec["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token, `atl_<prefix>_<secret>`."},
    }
    for route in routes:
        for method in route.methods or ():
            _complete(spec["paths"][route.path_format][method.lower()], route, method)
    _describe_jobs(spec["paths"][f"{PREFIX}/jobs"]["post"])
    _name_bounds(spec)
    return spec


def _without_head(route: APIRoute) -> APIRoute:
    """The route as it is described: HEAD is the same as GET and needs no words."""
    described = copy(route)
    described.methods = (route.methods or set()) - {"HEAD"}
    return described


def _complete(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    rules = rules_of(route.endpoint)
    statuses = {422, 429, 503}
    if rules.roles:
        operation["x-roles"] = [role for role in ROLES if role in rules.roles]
        operation["security"] = [{"token": []}]
        statuses |= {401, 403}
    if isinstance(route, GuardedRoute) and route.takes_key:
        operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    if rules.by_tenant:
        operation.setdefault("parameters", []).append(TENANT)
    if rules.by_tenant or "{" in route.path_format or route.path_format.endswith("/audit/key"):
        statuses.add(404)
    if "requestBody" in operation or rules.raw:
        statuses |= {408, 413, 415}
    if method != "GET" or "{" in route.path_format:
        statuses.add(409)
    if route.path_format.endswith(("/session", "/metrics")):
        statuses |= {401, 403, 409}
    for status in sorted(statuses):
        operation["responses"][str(status)] = _problem(DESCRIPTIONS[status])


def _describe_jobs(operation: dict[str, Any]) -> None:
    one: Mapping[str, Any] = {"$ref": REFERENCE.format(model="NewJobBody")}
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_JOBS}
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": {"anyOf": [one, many]}}},
    }
    operation["parameters"] = [CORRELATION_ID, *operation.get("parameters", [])]


def _name_bounds(value: Any) -> None:
    """Rename bounds that pydantic leaves under its own names, behind a validator of ours, to JSON Schema's."""
    if isinstance(value, dict):
        if value.get("type") in ("integer", "number"):
            for ours, theirs in BOUNDS.items():
                if ours in value:
                    value[theirs] = value.pop(ours)
        for inner in value.values():
            _name_bounds(inner)
    elif isinstance(value, list):
        for inner in value:
            _name_bounds(inner)


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
    }
