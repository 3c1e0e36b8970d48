"""The API within the process of a command: every route is found, and the login is the operator who acts."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Match

from atlas.api.app import ROUTERS
from atlas.api.local import INNER, MODULES, PREFIX, modules_of
from atlas.api.routing import GuardedRoute, requires

# For programs that run jobs, and for browsers: no command calls them.
NOT_CALLED = ("agent", "worker", "live")


def test_each_address_leads_to_the_module_that_has_its_route():
    missing = []
    for router in ROUTERS:
        for route in router.routes:
            first = route.path.removeprefix(PREFIX).split("/")[0]
            if isinstance(route, APIRoute) and route.path.startswith(PREFIX) and first not in NOT_CALLED:
                module = route.endpoint.__module__.removeprefix("atlas.api.resources.")
                if module not in modules_of(route.path):
                    missing.append((route.path, module))

    assert missing == []


def test_no_part_of_an_address_is_left_over():
    paths = [getattr(route, "path", "") for router in ROUTERS for route in router.routes]
    parts = [[*path.removeprefix(PREFIX).split("/"), ""] for path in paths]

    assert set(MODULES) <= {first for first, *_ in parts}
    assert set(INNER) <= {(first, second) for first, second, *_ in parts}


def test_a_route_is_found_without_its_models_which_are_built_when_it_is_called():
    router = APIRouter(route_class=GuardedRoute)

    @router.get("/things/{name}")
    @requires()
    async def show(name: str, limit: int = 10) -> list[str]:
        return [name] * limit

    [route] = router.routes
    assert isinstance(route, GuardedRoute)

    match, found = route.matches({"type": "http", "method": "HEAD", "path": "/things/a"})
    assert (match, found["path_params"]) == (Match.FULL, {"name": "a"})
    assert "dependant" not in vars(route)

    assert route.app is not None
    assert [field.name for field in vars(route)["dependant"].query_params] == ["limit"]
    assert route.methods == {"GET", "HEAD"}
