"""The OpenAPI description: what FastAPI does not know of roles, credentials, problems, headers and the socket."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from atlas.api.access.authentication import AGENTS, PLAIN_COOKIE, SECURE_COOKIE
from atlas.api.models.jobs import MAX_JOBS, NewJobBody
from atlas.api.openapi.examples import add_examples
from atlas.api.openapi.names import DESCRIPTIONS
from atlas.api.openapi.tags import TAGS
from atlas.api.openapi.values import EXAMPLES
from atlas.api.problems import MEDIA_TYPE, Problem
from atlas.api.replica.reads import DATA_AGE
from atlas.api.routing import PREFIX, GuardedRoute, rules_of
from atlas.client.frames import Events, Hello, Refetch
from atlas.engine.access.tokens import ROLES
from atlas.engine.synonyms import synonyms_of

ABOUT = (
    "Jobs, workflows, schedules and the audit log. Programs send a token as "
    "`Authorization: Bearer atl_…`; people sign in with one at `/api/v1/session`. The tenant comes from the "
    "credential; an operator, who has none, names one with `?tenant=`. "
    "Every error has one shape, Problem. HEAD works wherever GET does, but for a host that fetches its next job."
)
REFERENCE = "#/components/schemas/{model}"
STATUSES = {
    101: "The connection is a WebSocket now. It carries frames, JSON objects of the kinds in `x-frames`, as text.",
    401: "No credential, or none that is valid now.",
    403: "The caller may not do this.",
    404: "It does not exist, or not for this caller.",
    409: "It conflicts with the state of the entity.",
    412: "It has changed since the state that `If-Match` or `If-Unmodified-Since` names.",
    408: "The body takes too long to arrive.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is not valid; `errors` names each field and reason.",
    426: "This address speaks WebSocket only.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "The database cannot be reached; `Retry-After` says when to try again.",
}
SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, `atl_<prefix>_<secret>`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SECURE_COOKIE,
        "description": f"A page's session, from `POST /api/v1/session`. Without TLS the cookie is `{PLAIN_COOKIE}`.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "The session's `csrf_token`, with every change that a page sends.",
    },
}
TEXT = {"type": "string"}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "Names the request in log entries and in the audit log; the one that was sent, or a new one.",
        "schema": {**TEXT, "examples": ["5f3c9a7e1b2d4c6f8a0e9d7c5b3a1f2e"]},
    },
    "Retry-After": {"description": "Seconds until the next try.", "schema": {"type": "integer", "examples": [2]}},
    "RateLimit-Policy": {
        "description": "The limits of the caller's requests: a quota of `q` in `w` seconds each.",
        "schema": {**TEXT, "examples": ['"token";q=2000;w=2, "tenant";q=4000;w=2']},
    },
    "RateLimit": {
        "description": "What is left of them: `r` requests, or jobs in their bodies; whole again in `t` seconds.",
        "schema": {**TEXT, "examples": ['"token";r=1999;t=1, "tenant";r=3999;t=1']},
    },
    "WWW-Authenticate": {
        "description": "The credential that is needed.",
        "schema": {**TEXT, "examples": ['Bearer realm="atlas"']},
    },
    "Idempotency-Replayed": {
        "description": "`true` if this is the response to an earlier call with the same key.",
        "schema": {**TEXT, "enum": ["true"]},
    },
    "ETag": {
        "description": "Identifies the state of the entity; sent back as `If-Match`, an edit changes that state alone.",
        "schema": {**TEXT, "examples": ['"8d5e957f297893487bd98fa830fa6413"']},
    },
    "Last-Modified": {
        "description": "When it was edited last, in whole seconds; sent back as `If-Unmodified-Since`.",
        "schema": {**TEXT, "examples": ["Wed, 18 Nov 2026 08:00:00 GMT"]},
    },
    DATA_AGE: {
        "description": "How old the data is at most, in seconds, where lists are read from a replica.",
        "schema": {**TEXT, "examples": ["0.4"]},
    },
    "Set-Cookie": {
        "description": "The session's cookie, which no script reads; on signing out an expired one.",
        "schema": {**TEXT, "examples": [f"{SECURE_COOKIE}=…; HttpOnly; Max-Age=43200; Path=/; SameSite=lax; Secure"]},
    },
    "Content-Disposition": {
        "description": "The name of the file.",
        "schema": {**TEXT, "examples": ['attachment; filename="audit.ndjson"']},
    },
    "Upgrade": {"description": "The protocol to use.", "schema": {**TEXT, "enum": ["websocket"]}},
}
# Of responses that name the state of what is edited.
VALIDATORS = ("ETag", "Last-Modified")
# Of responses to an authenticated caller.
RATE_HEADERS = ("RateLimit-Policy", "RateLimit")
# Headers of responses by status; every response has X-Request-Id.
BY_STATUS = {401: "WWW-Authenticate", 426: "Upgrade", 429: "Retry-After", 503: "Retry-After"}
OWN_HEADERS = {
    "sign_in 201": ["Set-Cookie"],
    "sign_out 204": ["Set-Cookie"],
    "export_audit_log 200": ["Content-Disposition"],
    "download_mail 200": ["Content-Disposition"],
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
TRACEPARENT = {
    "name": "traceparent",
    "in": "header",
    "required": False,
    "description": "The caller's place in a W3C trace; the correlation id of jobs where no other is given.",
    "schema": {"type": "string", "maxLength": 200},
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
    frames = [(Hello, "serialization"), (Events, "serialization"), (Refetch, "serialization")]
    kinds: Any = [(NewJobBody, "validation"), (Problem, "serialization"), *frames]
    schemas.update(models_json_schema(kinds, ref_template=REFERENCE)[1]["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    spec["info"]["license"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    spec["servers"] = [{"url": "/", "description": "This Atlas."}]
    spec["tags"] = [{"name": name, "description": about} for name, about in TAGS.items()]
    spec["components"] |= {"securitySchemes": SECURITY_SCHEMES, "headers": HEADERS}
    for route in routes:
        for method in route.methods or ():
            _complete(spec["paths"][route.path_format][method.lower()], route, method)
    _describe_jobs(spec["paths"][f"{PREFIX}/jobs"]["post"])
    _describe_socket(spec["paths"][f"{PREFIX}/live"]["get"])
    for ones in spec["paths"].values():
        for operation in ones.values():
            _describe_headers(operation)
            _describe_parameters(operation)
    _name_bounds(spec)
    _describe_properties(schemas)
    add_examples(schemas)
    return spec


def _without_head(route: APIRoute) -> APIRoute:
    """The route as it is described: HEAD is the same as GET and needs no words."""
    described = copy(route)
    described.methods = (route.methods or set()) - {"HEAD"}
    return described


def _complete(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    rules = rules_of(route.endpoint)
    # A route's own tag instead of its router's.
    operation["tags"] = operation["tags"][-1:]
    if rules.roles:
        operation["x-roles"] = [role for role in ROLES if role in rules.roles]
        operation["security"] = [{"token": []}]
        if rules.roles - set(AGENTS):
            operation["security"].append({"session": []} if method == "GET" else {"session": [], "csrf": []})
    if isinstance(route, GuardedRoute) and route.takes_key:
        operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    if rules.etag:
        for response in operation["responses"].values():
            response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in VALIDATORS}
    if rules.replica:
        operation["responses"]["200"]["headers"] = {DATA_AGE: {"$ref": f"#/components/headers/{DATA_AGE}"}}
    if synonyms := _synonyms(operation.get("parameters", ())):
        operation["parameters"] += synonyms
    if rules.by_tenant:
        operation.setdefault("parameters", []).append(TENANT)
    has_body = "requestBody" in operation or rules.raw
    for status in sorted(_refusals(route, method, has_body=has_body)):
        operation["responses"][str(status)] = _problem(STATUSES[status])


def _refusals(route: APIRoute, method: str, *, has_body: bool) -> set[int]:
    """The statuses of the problems that this operation may respond with."""
    rules = rules_of(route.endpoint)
    statuses = {422, 429, 503}
    if rules.roles:
        statuses |= {401, 403}
    if isinstance(route, GuardedRoute) and route.takes_match:
        statuses.add(412)
    if rules.by_tenant or "{" in route.path_format or route.path_format.endswith("/audit/key"):
        statuses.add(404)
    if has_body:
        statuses |= {408, 413, 415}
    if method != "GET" or "{" in route.path_format:
        statuses.add(409)
    if route.path_format.endswith(("/session", "/metrics")):
        statuses |= {401, 403, 409}
    if route.path_format.startswith("/hooks/"):
        statuses.add(403)
    return statuses


def _synonyms(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The other names that a query may have for its parameters."""
    by_name = {parameter["name"]: parameter for parameter in parameters if parameter["in"] == "query"}
    return [
        {**by_name[field], "name": name, "description": f"A synonym of `{field}`.", "deprecated": True}
        for name, field in sorted(synonyms_of(by_name).items())
    ]


def _describe_jobs(operation: dict[str, Any]) -> None:
    body_schema: Mapping[str, Any] = {"$ref": REFERENCE.format(model="NewJobBody")}
    many = {"type": "array", "items": body_schema, "minItems": 1, "maxItems": MAX_JOBS}
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": {"anyOf": [body_schema, many]}}},
    }
    operation["parameters"] = [CORRELATION_ID, TRACEPARENT, *operation.get("parameters", [])]


def _describe_socket(operation: dict[str, Any]) -> None:
    operation["responses"]["101"] = {"description": STATUSES[101]}
    operation["responses"]["426"] = _problem(STATUSES[426])
    frames = {model.__name__.lower(): REFERENCE.format(model=model.__name__) for model in (Hello, Events, Refetch)}
    operation["x-frames"] = {
        "oneOf": [{"$ref": frame} for frame in frames.values()],
        "discriminator": {"propertyName": "type", "mapping": frames},
    }


def _describe_headers(operation: dict[str, Any]) -> None:
    named = {parameter["name"] for parameter in operation.get("parameters", ())}
    for status, response in operation["responses"].items():
        names = ["X-Request-Id", *([BY_STATUS[int(status)]] if int(status) in BY_STATUS else [])]
        if operation.get("x-roles") and status != "401":
            names += RATE_HEADERS
        if "Idempotency-Key" in named and status.startswith("2"):
            names.append("Idempotency-Replayed")
        names += OWN_HEADERS.get(f"{operation['operationId']} {status}", ())
        response["headers"] = {
            **{name: {"$ref": f"#/components/headers/{name}"} for name in names},
            **response.get("headers", {}),
        }


def _describe_parameters(operation: dict[str, Any]) -> None:
    """Describe parameters by their names, where they do not describe themselves."""
    described = []
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        about = {"description": parameter.get("description") or DESCRIPTIONS.get(name, "")}
        has_own = name not in EXAMPLES or parameter["in"] != "path" or "examples" in parameter["schema"]
        example = {} if has_own else {"example": EXAMPLES[name]}
        described.append({**parameter, **about, **example})
    if described:
        operation["parameters"] = described


def _describe_properties(schemas: Mapping[str, Any]) -> None:
    for model, schema in schemas.items():
        for name, property_schema in schema.get("properties", {}).items():
            if "description" not in property_schema:
                property_schema["description"] = DESCRIPTIONS.get(f"{model}.{name}") or DESCRIPTIONS.get(name, "")


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
