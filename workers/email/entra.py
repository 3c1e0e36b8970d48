"""Tokens of Microsoft Entra for a program without a user: kept until shortly before they end, fetched one at a time."""

import asyncio
import threading
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
        self._line = _Line(settings)
        self._token = ""
        self._good_until = 0.0
        self._fetching: asyncio.Task[None] | None = None

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
            self._line.forget()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated, the token included."""
        return (*secrets_of(self._settings), self._token)

    def close(self) -> None:
        """Let go of connections."""
        if self._fetching is not None:
            self._fetching.cancel()
        self._line.give_up()

    async def _fetch(self) -> None:
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                answer = await self._line.ask(self._scope)
        except TimeoutError as error:
            self._line.give_up()
            self._line = _Line(self._settings)
            raise self._no_token(f"no whole answer within {FETCH_SECONDS:g} s") from error
        except Exception as error:
            # The library reads answers trustingly, and fails in many ways over those that make no sense.
            raise self._no_token(describe(error, self.secrets)) from error
        token = answer.get("access_token")
        if token is None:
            raise self._no_token(f"{answer.get('error', '')}: {answer.get('error_description', '')}")
        if not is_an_id(token, longest=LONGEST_TOKEN) or not token.isascii():
            raise self._no_token("the answer holds no token that can be used")
        lifetime = _seconds(answer.get("expires_in"))
        self._token = token
        self._good_until = asked_at + max(lifetime - MARGIN_SECONDS, 0.8 * min(lifetime, MARGIN_SECONDS))

    def _no_token(self, said: str) -> NotSent:
        # The library remembers failures for a while; a new one asks again.
        self._line.forget()
        last = self._line.last
        shown = words(said, self.secrets).strip(" .:")
        status = 0 if last is None else last.status_code
        return NotSent(
            f"{WHO} gave no token ({status or 'no answer'}): {shown or 'no reason given'}.",
            permanent=400 <= status < 500 and status not in PASSING,
            retry_after=None if last is None else retry_after(last.headers),
        )


class _Line:
    """The way to Entra: a thread, its connections and the library's application. It is given up as a whole.

    Only the thread itself closes connections that it uses: a number that is closed under it may be another's by the
    time it reads on.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="entra")
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._app: Any | None = None
        self._asks = False
        self._is_given_up = False
        self.last: httpx.Response | None = None

    async def ask(self, scope: str) -> dict[str, Any]:
        """What the library answers. `last` is what it heard."""
        self.last = None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, scope)

    def forget(self) -> None:
        """What the library remembers of answers goes."""
        self._app = None

    def give_up(self) -> None:
        """Let go of the connections, or have the thread do so at the end of what it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_given_up = True
            if not self._asks and self._http is not None:
                self._http.close()

    def _ask(self, scope: str) -> dict[str, Any]:
        """In the thread: the first call also reads where the directory's endpoints are."""
        with self._lock:
            self._asks = True
        if self._http is None:
            self._http = blocking_http_client(within=FETCH_SECONDS, event_hooks={"response": [self._heard]})
        try:
            app = self._app
            if app is None:
                settings = self._settings
                app = self._app = msal.ConfidentialClientApplication(
                    settings.ms_client_id,
                    client_credential=settings.ms_client_secret,
                    authority=f"{settings.ms_authority_url.rstrip('/')}/{settings.ms_tenant_id}",
                    # The operator names the authority; asking a public host whether it is known would need that host.
                    instance_discovery=False,
                    http_client=self._http,
                )
            answer: dict[str, Any] = app.acquire_token_for_client(scopes=[scope])
            return answer
        finally:
            with self._lock:
                self._asks = False
                if self._is_given_up:
                    self._http.close()

    def _heard(self, response: httpx.Response) -> None:
        self.last = response


def _seconds(said: object) -> float:
    try:
        return float(str(said))
    except ValueError:
        return 0.0
