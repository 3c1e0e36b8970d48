"""Access tokens of Microsoft Entra, by client credentials: cached until they expire, fetched one at a time."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import msal

from atlas.outgoing.http import http_client, read_body, retry_after
from atlas.settings import Settings
from atlas.workers.email.provider_responses import PASSING, describe, is_an_id, secrets_of, shown_message
from atlas.workers.email.providers import NotSent

# A token is renewed this long before it expires, or after four fifths of a short lifetime.
MARGIN_SECONDS = 300.0
# The time limit of one fetch, however slowly the response comes.
FETCH_SECONDS = 45.0
MAX_TOKEN_LENGTH = 64 * 1024

WHO = "Microsoft Entra"


class EntraTokens:
    """The access token for Graph. `msal` is not async, so it runs in a thread, one call at a time."""

    def __init__(self, settings: Settings, scope: str) -> None:
        self._settings = settings
        self._scope = scope
        self._connection = _TokenConnection(settings)
        self._token = ""
        self._good_until = 0.0
        self._fetching: asyncio.Task[None] | None = None

    async def get(self) -> str:
        """Return a token that is still valid for a while. Callers that ask during a fetch wait for that fetch."""
        if time.monotonic() >= self._good_until:
            if self._fetching is None or self._fetching.done():
                self._fetching = asyncio.create_task(self._fetch(), name="entra-token")
                # The callers that waited may have been cancelled when it fails.
                self._fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(self._fetching)
        return self._token

    def forget(self, token: str) -> None:
        """The token was refused: the next `get` fetches another. One that was replaced meanwhile is kept."""
        if token == self._token:
            self._good_until = 0.0
            self._connection.forget()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may repeat, the token included."""
        return (*secrets_of(self._settings), self._token)

    async def close(self) -> None:
        """Close the connections."""
        if self._fetching is not None:
            self._fetching.cancel()
        await self._connection.close()

    async def _fetch(self) -> None:
        asked_at = time.monotonic()
        try:
            response = await self._connection.ask(self._scope)
        except TimeoutError as error:
            raise self._no_token(f"no complete response within {FETCH_SECONDS:g} s") from error
        except Exception as error:
            # The library does not check responses, and fails in many ways on malformed ones.
            raise self._no_token(describe(error, self.secrets)) from error
        token = response.get("access_token")
        if token is None:
            raise self._no_token(f"{response.get('error', '')}: {response.get('error_description', '')}")
        if not is_an_id(token, longest=MAX_TOKEN_LENGTH) or not token.isascii():
            raise self._no_token("the response holds no usable token")
        lifetime = _seconds(response.get("expires_in"))
        self._token = token
        self._good_until = asked_at + max(lifetime - MARGIN_SECONDS, 0.8 * min(lifetime, MARGIN_SECONDS))

    def _no_token(self, said: str) -> NotSent:
        # The library caches failures for a while; a new one asks again.
        self._connection.forget()
        last = self._connection.last
        shown = shown_message(said, self.secrets).strip(" .:")
        status = 0 if last is None else last.status_code
        return NotSent(
            f"{WHO} gave no token ({status or 'no response'}): {shown or 'no reason given'}.",
            permanent=400 <= status < 500 and status not in PASSING,
            retry_after=None if last is None else retry_after(last.headers),
        )


class _TokenConnection:
    """The connection to Entra: the library runs in a thread, and its requests run in the event loop.

    A thread cannot be cancelled. A request in the event loop can, wherever the response hangs.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="entra")
        self._http: httpx.AsyncClient | None = None
        self._app: Any | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends_at = 0.0
        self._asked: Future[httpx.Response] | None = None
        self.last: httpx.Response | None = None

    async def ask(self, scope: str) -> dict[str, Any]:
        """Ask for a token and return what the library makes of the response, which is in `last`."""
        self.last = None
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + FETCH_SECONDS
        return await self._loop.run_in_executor(self._thread, self._ask, scope)

    def forget(self) -> None:
        """Drop what the library has cached."""
        self._app = None

    async def close(self) -> None:
        """End the thread and close the connections."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._asked is not None:
            self._asked.cancel()
        if self._http is not None:
            await self._http.aclose()

    def _ask(self, scope: str) -> dict[str, Any]:
        """In the thread: the first call also reads the directory's endpoints."""
        app = self._app
        if app is None:
            settings = self._settings
            app = self._app = msal.ConfidentialClientApplication(
                settings.ms_client_id,
                client_credential=settings.ms_client_secret,
                authority=f"{settings.ms_authority_url.rstrip('/')}/{settings.ms_tenant_id}",
                # The operator names the authority. Instance discovery would ask a public host about it.
                instance_discovery=False,
                http_client=_Requests(self._request),
            )
        response: dict[str, Any] = app.acquire_token_for_client(scopes=[scope])
        return response

    def _request(self, method: str, url: str, options: dict[str, Any]) -> httpx.Response:
        """In the thread: wait for the request in the event loop."""
        assert self._loop is not None
        self._asked = asyncio.run_coroutine_threadsafe(self._exchange(method, url, options), self._loop)
        return self._asked.result(FETCH_SECONDS + 5)

    async def _exchange(self, method: str, url: str, options: dict[str, Any]) -> httpx.Response:
        if self._http is None:
            self._http = http_client()
        async with asyncio.timeout_at(self._ends_at):
            async with self._http.stream(method, url, **options) as response:
                content = await read_body(response)
        headers = response.headers.copy()
        headers.pop("Content-Encoding", None)
        self.last = httpx.Response(response.status_code, headers=headers, content=content)
        return self.last


class _Requests:
    """The two methods of an HTTP client that the library calls."""

    def __init__(self, request: Callable[[str, str, dict[str, Any]], httpx.Response]) -> None:
        self._request = request

    def get(self, url: str, **options: Any) -> httpx.Response:
        return self._request("GET", url, options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        return self._request("POST", url, options)


def _seconds(said: object) -> float:
    try:
        return float(str(said))
    except ValueError:
        return 0.0
