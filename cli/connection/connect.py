"""Connects to an installation: over HTTP if ATLAS_URL is set, on its database otherwise.

Where the database has no free connection, not even a reserved one, the API of a running `atlas up` is asked. What
connects is imported when it is needed: help and completion do not need it, and no command needs both backends.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from atlas.cli.terminal.output import warn
from atlas.errors import AtlasError, NoFreeConnection, SettingsError

if TYPE_CHECKING:
    from atlas.cli.connection.backend import Backend
    from atlas.client import AtlasClient
    from atlas.settings import Settings

T = TypeVar("T")


def on_backend(work: "Callable[[Backend], Coroutine[Any, Any, T]]", *, checks_inputs: bool = False) -> T:
    """Run a command on the installation that the settings name. One that enqueues `checks_inputs`."""
    from atlas.cli.runtime import execute

    async def run(settings: "Settings") -> T:
        try:
            async with _connect(settings, checks_inputs=checks_inputs) as backend:
                return await work(backend)
        except NoFreeConnection as error:
            return await work(_over_http(_api_instead(settings, error)))

    return execute(run)


def either(
    work: "Callable[[Settings], Coroutine[Any, Any, T]]",
    over_http: "Callable[[AtlasClient], Coroutine[Any, Any, T]]",
    *,
    tenant: str | None = None,
) -> T:
    """Run a command on the database, or over HTTP if ATLAS_URL is set, for one tenant if it is named.

    For commands that do more where the database is than the API can: `audit verify`, `proof` and `export` use keys and
    copies of this machine; `outbox` reads files and needs no database; `grant enqueue` and `revoke` use the login of
    the owner of the tables. All others use `on_atlas`.
    """
    from atlas.cli.runtime import execute

    async def run(settings: "Settings") -> T:
        if settings.atlas_url is None:
            try:
                return await work(settings)
            except NoFreeConnection as error:
                settings = _api_instead(settings, error)
        from atlas.cli.connection.over_http import reach_api

        async with reach_api(settings, tenant) as atlas:
            return await over_http(atlas)

    return execute(run)


def on_atlas(
    work: "Callable[[AtlasClient], Coroutine[Any, Any, T]]",
    *,
    tenant: str | None = None,
    token: str | None = None,
    by_token: bool = False,
) -> T:
    """Run a command with a client: over HTTP if ATLAS_URL is set, else in this process. It is about `tenant`, if named.

    A command that acts as the owner of a token, `by_token`, goes over HTTP wherever there is a token.
    """
    from atlas.cli.runtime import execute

    async def run(settings: "Settings") -> T:
        settings = _for_token(settings, by_token=by_token)
        try:
            async with _client(settings, tenant) as atlas:
                return await work(atlas)
        except NoFreeConnection as error:
            async with _client(_api_instead(settings, error), tenant) as atlas:
                return await work(atlas)

    return execute(run, atlas_token=token)


def _for_token(settings: "Settings", *, by_token: bool) -> "Settings":
    """The settings of a command: one that acts as the owner of a token calls the API here, if no other is named."""
    is_local = settings.atlas_token is not None and settings.atlas_url is None
    return _api_here(settings) if by_token and is_local else settings


def _client(settings: "Settings", tenant: str | None) -> "AbstractAsyncContextManager[AtlasClient]":
    if settings.atlas_url is None:
        with _deferred_models():
            from atlas.cli.connection.in_process import reach_in_process

        return reach_in_process(settings, tenant)
    from atlas.cli.connection.over_http import reach_api

    return reach_api(settings, tenant)


@contextmanager
def _deferred_models() -> Iterator[None]:
    """Build the models that are imported in the block when they are used. FastAPI has some for OpenAPI."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


def _api_here(settings: "Settings") -> "Settings":
    """Settings that lead to the API of the `atlas up` with this home, for the token that is given."""
    from atlas.home.up_report import api_address

    address = api_address(settings.home)
    if address is None:
        raise SettingsError(
            "A token is for the API, and none runs here.",
            remedy="Start it with `atlas up`, or set ATLAS_URL, or unset ATLAS_TOKEN.",
        )
    return replace(settings, atlas_url=address)


def _api_instead(settings: "Settings", error: NoFreeConnection) -> "Settings":
    """Settings that lead to a running API. Nothing was done yet: a command connects first."""
    api = _running_api(settings)
    if api is None:
        raise error
    warn(AtlasError(error.message, remedy=f"The API at {api.atlas_url} was asked instead."))
    return api


def _running_api(settings: "Settings") -> "Settings | None":
    """Settings that lead to the API of the `atlas up` with this home, which has connections, if one runs."""
    from atlas.home.up_report import OPERATOR_TOKEN, api_address

    address, file = api_address(settings.home), settings.home / OPERATOR_TOKEN
    if address is None or settings.atlas_url is not None:
        return None
    try:
        token = settings.atlas_operator_token or file.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return replace(settings, atlas_url=address, atlas_token=token)


@asynccontextmanager
async def _connect(settings: "Settings", *, checks_inputs: bool) -> "AsyncIterator[Backend]":
    if settings.atlas_url is not None:
        yield _over_http(settings)
        return
    from atlas.cli.connection.on_database import OnDatabase
    from atlas.cli.runtime import connected

    async with connected(settings, checks_inputs=checks_inputs) as conn:
        yield OnDatabase(conn, settings)


def _over_http(settings: "Settings") -> "Backend":
    from atlas.cli.connection.over_http import OverHttp

    return OverHttp(settings)
