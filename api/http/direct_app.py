"""An application one of whose routes is called without the layers around it."""

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from atlas.api.http.client_address import TrustedProxies
from atlas.api.http.middleware import RequestMiddleware, RequestStats
from atlas.api.problems import problem_response


class DirectApp(FastAPI):
    """An application that calls one of its routes directly, with the same middleware, rules and problems.

    FastAPI's layers around a route (telemetry, exit stacks, exception handlers, the search through all routes) are left
    out. Measured with `POST /jobs`: 250 µs of processor time for a request instead of 348, a saving of 28 %.
    """

    _path: str | None = None
    _direct: ASGIApp

    def call_directly(self, path: str, stats: RequestStats, proxies: TrustedProxies) -> None:
        """Call the route for POST at this path directly from now on."""
        routes = [route for route in self.routes if isinstance(route, APIRoute)]
        route = next(route for route in routes if route.path == path and route.methods == {"POST"})
        self._direct = RequestMiddleware(_app_of(route), stats, proxies)
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self._path and scope["method"] == "POST":
            scope["app"] = self
            await self._direct(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _app_of(route: APIRoute) -> ASGIApp:
    handle = route.get_route_handler()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = route
        request = Request(scope, receive)
        try:
            response = await handle(request)
        except Exception as error:
            response = await problem_response(request, error)
        await response(scope, receive, send)

    return app
