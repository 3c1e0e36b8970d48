"""Tokens of Microsoft Entra for a program without a user: kept until shortly before they end, fetched one at a time."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msal

from atlas.http import blocking_http_client
from atlas.settings import Settings
from workers.email.answers import PASSING, describe, is_an_id, retry_after, secrets_of, words
from workers.email.providers import NotSent

# A token is renewed this long before it ends, or at four fifths of a short life.
MARGIN_SECONDS = 300.0
# All of one fetch, however slowly the answer comes.
FETCH_SECONDS = 45.0
LONGEST_TOKEN = 64 * 1024

WHO = "Microsoft Entra"


class EntraTokens:
    """The access token that Graph wants. `msal` is not async, so it works in a thread, one call at a time."""

    def __init__(self, settings: Settings, scope: str) -> None:
        self._settings = settings
        self._scope = scope
        self._http: httpx.Client | None = None
        self._app: Any | None = None
        self._last: httpx.Response | None = None
        self._token = ""
        self._good_until = 0.0
        self._fetching: asyncio.Task[None] | None = None
        self._thread = _one_thread()

    async def get(self) -> str:
        """A token that is good for a while. Whoever asks while one is fetched waits for that one."""
        if time.monotonic() >= self._good_until:
            if self._fetching is None or self._fetching.done():
                self._fetching = asyncio.create_task(self._fetch(), name="entra-token")
                # Whoever waited may be gone when it fails.
                self._fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(self._fetching)
        return self._token

    def forget(self, token: str) -> None:
        """The token was refused: the next `get` fetches another. One that was replaced meanwhile is kept."""
        if token == self._token:
            self._good_until = 0.0
            self._app = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated, the token included."""
        return (*secrets_of(self._settings), self._token)

    def close(self) -> None:
        """Let go of connections."""
        if self._fetching is not None:
            self._fetching.cancel()
        self._let_go()

    async def _fetch(self) -> None:
        asked_at = time.monotonic()
        self._last = None
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask)
        except TimeoutError as error:
            # The thread cannot be stopped, but its connection can be taken away. The next fetch has another thread.
            self._let_go()
            self._thread = _one_thread()
            raise self._no_token(f"no whole answer within {FETCH_SECONDS:g} s") from error
        except (httpx.HTTPError, msal.exceptions.MsalError, RuntimeError, ValueError) as error:
            raise self._no_token(describe(error, self.secrets)) from error
        token = answer.get("access_token")
        if token is None:
            raise self._no_token(f"{answer.get('error', '')}: {answer.get('error_description', '')}")
        if not is_an_id(token, longest=LONGEST_TOKEN) or not token.isascii():
            raise self._no_token("the answer holds no token that can be used")
        lifetime = _seconds(answer.get("expires_in"))
        self._token = token
        self._good_until = asked_at + max(lifetime - MARGIN_SECONDS, 0.8 * min(lifetime, MARGIN_SECONDS))

    def _let_go(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._app = None
        if self._http is not None:
            self._http.close()
            self._http = None

    def _no_token(self, said: str) -> NotSent:
        # The library remembers failures for a while; a new one asks again.
        self._app = None
        shown = words(said, self.secrets).strip(" .:")
        status = 0 if self._last is None else self._last.status_code
        return NotSent(
            f"{WHO} gave no token ({status or 'no answer'}): {shown or 'no reason given'}.",
            permanent=400 <= status < 500 and status not in PASSING,
            retry_after=None if self._last is None else retry_after(self._last.headers),
        )

    def _ask(self) -> dict[str, Any]:
        """In a thread: the first call also reads where the directory's endpoints are."""
        if self._http is None:
            self._http = blocking_http_client(event_hooks={"response": [self._heard]})
        if self._app is None:
            settings = self._settings
            self._app = msal.ConfidentialClientApplication(
                settings.ms_client_id,
                client_credential=settings.ms_client_secret,
                authority=f"{settings.ms_authority_url.rstrip('/')}/{settings.ms_tenant_id}",
                # The operator names the authority; asking a public host whether it is known would need that host.
                instance_discovery=False,
                http_client=self._http,
            )
        answer: dict[str, Any] = self._app.acquire_token_for_client(scopes=[self._scope])
        return answer

    def _heard(self, response: httpx.Response) -> None:
        self._last = response


def _seconds(said: object) -> float:
    try:
        return float(str(said))
    except ValueError:
        return 0.0


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="entra")
