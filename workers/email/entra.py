"""Tokens of Microsoft Entra for a program without a user: kept until shortly before they end, fetched one at a time."""

import asyncio
import time
from typing import Any

import httpx
import msal

from atlas.http import blocking_http_client
from atlas.settings import Settings
from workers.email.answers import PASSING, describe, retry_after, secrets_of, words
from workers.email.providers import NotSent

# A token is renewed this long before it ends, or at four fifths of a short life.
MARGIN_SECONDS = 300.0

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
        self._fetching = asyncio.Lock()

    async def get(self) -> str:
        """A token that is good for a while."""
        if time.monotonic() < self._good_until:
            return self._token
        async with self._fetching:
            # Whoever waited for the lock finds what the one before it fetched.
            if time.monotonic() >= self._good_until:
                await self._fetch()
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
        if self._http is not None:
            self._http.close()

    async def _fetch(self) -> None:
        asked_at = time.monotonic()
        self._last = None
        try:
            answer = await asyncio.to_thread(self._ask)
        except (httpx.HTTPError, msal.exceptions.MsalError, RuntimeError, ValueError) as error:
            raise self._no_token(describe(error)) from error
        if "access_token" not in answer:
            raise self._no_token(f"{answer.get('error', '')}: {answer.get('error_description', '')}")
        lifetime = float(answer.get("expires_in", 0))
        self._token = str(answer["access_token"])
        self._good_until = asked_at + max(lifetime - MARGIN_SECONDS, 0.8 * min(lifetime, MARGIN_SECONDS))

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
