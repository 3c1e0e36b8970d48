"""What the mail tests start from: a provider on loopback, settings that point to it, and a worker that drains."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from atlas.settings import Settings
from tests.workers.email.given import Post, settings_for
from tests.workers.email.server import MailServer


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all tests: what is trusted is read once a file, and takes a fifth of the time of a test."""
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture
async def server(authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MailServer]:
    """The provider, trusted through SSL_CERT_FILE."""
    server = MailServer(authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    async with server.running():
        yield server


@pytest.fixture
def settings(server: MailServer, tmp_path: Path) -> Settings:
    """Every provider is set up; a test chooses which are used."""
    return settings_for(server, tmp_path)


@pytest.fixture
async def post(pool: Any, database_url: str, settings: Settings) -> AsyncIterator[Post]:
    """A post office: Atlas serves mails."""
    post = Post(pool, database_url, settings)
    yield post
    await post.close()
