"""The client covers the API: each operation of its description has a method with the same parameters and result."""

import re
from typing import Any, get_args, get_origin

import pytest

from atlas.client import AtlasClient, SyncAtlasClient
from atlas.client.methods import Method
from atlas.client.route import Route
from atlas.models.base import Listed
from tests.support import ROOT

# What the client leaves to others, by tag or by operation, and why.
LEFT_OUT = {
    "agent": "`atlas agent` calls them",
    "worker": "the protocol of remote workers, in any language",
    "health": "for load balancers and monitoring",
    "watch": "AtlasClient.live follows it",
    "receive_message": "for the servers of others, which sign what they post",
    "sign_in": "for pages: a program sends its token with every call",
    "sign_out": "for pages: a program sends its token with every call",
    "show_mail_html": "for the frame of a page; `download_mail` has the mail",
}
# The operations whose methods have another name.
RENAMED = {"enqueue": "enqueue_jobs", "_enqueue_list": "enqueue_jobs"}
OF_PAGES = {"limit", "cursor", "offset"}
MISSING = """The client has no method for {name}. Add it to a class in atlas/client/operations/, such as

    @{decorator}
    def {name}(self, …) -> …:
        \"\"\"{summary}.\"\"\"

with the model of its response in atlas/models/, or name it in LEFT_OUT with the reason."""


@pytest.fixture(scope="module")
def described(spec: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The operations that the client should have, by method and path."""
    found = {
        (method.upper(), anonymous(path.removeprefix("/api/v1"))): {**one, "spec": spec, "path": path}
        for path, ones in spec["paths"].items()
        for method, one in ones.items()
    }
    return {where: one for where, one in found.items() if not LEFT_OUT.keys() & {one["operationId"], *one["tags"]}}


def anonymous(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def routes() -> dict[str, Route]:
    """The operations that the client calls, by the names of their methods."""
    named = {name: getattr(AtlasClient, name) for name in dir(AtlasClient)}
    return {name: one.route for name, one in named.items() if isinstance(one, Method) and one.route is not None}


def test_both_clients_have_the_same_methods():
    def methods(client: type) -> set[str]:
        return {name for name in dir(client) if isinstance(getattr(client, name), Method)}

    assert methods(AtlasClient) == methods(SyncAtlasClient)
    assert len(methods(AtlasClient)) > 90


async def test_every_operation_has_a_method_of_its_name(described):
    covered = {(one.method, anonymous(one.path)): name for name, one in routes().items()}
    for where, one in described.items():
        name, decorator = one["operationId"], f'operation("{where[0]}", "{one["path"].removeprefix("/api/v1")}")'
        wanted = MISSING.format(name=name, decorator=decorator, summary=one["summary"])
        assert where in covered, wanted
        assert RENAMED.get(covered[where], covered[where]) == name, wanted
    assert [name for where, name in covered.items() if where not in described] == []


def test_the_page_about_the_client_names_every_method():
    page = (ROOT / "docs" / "client.md").read_text().partition("## Methods")[2].partition("**Lists**")[0]
    named = set(re.findall(r"`([a-z_]+)[`(]", page))
    methods = {name for name in dir(AtlasClient) if isinstance(getattr(AtlasClient, name), Method)}

    assert {name for name in methods if not name.startswith("_")} - named == set()


async def test_a_method_takes_what_its_operation_takes(described):
    for name, route in routes().items():
        one = described[route.method, anonymous(route.path)]
        current = [given for given in one.get("parameters", []) if not given.get("deprecated")]
        known = {(given["in"], given["name"].lower()) for given in current}
        query = {given for place, given in known if place == "query"}
        takes = set(route.sent)

        assert route.by_tenant == ("tenant" in query), f"{name}: by_tenant"
        if route.method != "GET":
            assert route.keyed == (("header", "idempotency-key") in known), f"{name}: keyed"
        assert ("if_match" in route.signature.parameters) == (("header", "if-match") in known), f"{name}: if_match"
        if route.method in ("GET", "DELETE"):
            assert takes == query - {"tenant"} - OF_PAGES, f"{name}: its query"
        elif "body" not in route.signature.parameters:
            assert takes == set(fields(one)), f"{name}: its body"


def fields(one: dict[str, Any]) -> dict[str, Any]:
    """The fields of a body, without their synonyms."""
    content = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for part in [content, *content.get("anyOf", [])]:
        if "$ref" in part:
            found: dict[str, Any] = one["spec"]["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]["properties"]
            return {name: schema for name, schema in found.items() if not schema.get("deprecated")}
    return {}


async def test_a_method_returns_what_its_operation_returns(described):
    for name, route in routes().items():
        if name in RENAMED:
            continue
        one = described[route.method, anonymous(route.path)]
        [response] = [received for status, received in one["responses"].items() if status.startswith("2")]
        schema = next(iter(response.get("content", {}).values()), {}).get("schema", {})
        is_list = "limit" in {given["name"] for given in one.get("parameters", []) if given["in"] == "query"}

        if "$ref" in schema:
            # A list that searches says how far it looked; the client goes on by itself.
            assert schema["$ref"].rsplit("/", 1)[1].removeprefix("Searched") == schema_name(
                route.result, is_list=is_list
            ), name
        else:
            assert route.result in (None, str, bytes, dict[str, Any]), name


def schema_name(kind: Any, *, is_list: bool) -> str:
    if get_origin(kind) is None and getattr(kind, "__pydantic_generic_metadata__", {}).get("origin") is Listed:
        return f"Listed_{kind.__pydantic_generic_metadata__['args'][0].__name__}_"
    assert not get_args(kind)
    return f"Page_{kind.__name__}_" if is_list else str(kind.__name__)
