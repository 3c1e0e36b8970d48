"""What Atlas makes in ATLAS_HOME is for its owner alone, whatever the umask."""

import os
import stat
from uuid import uuid4

from atlas.audit.keys import signing_key
from atlas.engine.secrets.key import load_key
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings
from atlas.workers.email.outbox import write_mail


def mode(path):
    return oct(stat.S_IMODE(path.stat().st_mode))


async def test_home_keys_and_outbox_are_for_their_owner_alone(tmp_path, monkeypatch):
    home = tmp_path / "atlas"
    monkeypatch.setenv("ATLAS_HOME", str(home))
    before = os.umask(0o022)
    try:
        signing_key(load_settings())
        load_key(home / "keys" / "other.key")
        write_mail(str(home / "outbox"), "acme", uuid4(), b"Subject: Hello\n\n")
        assert [mode(home / name) for name in (".", "keys", "outbox", "outbox/acme")] == ["0o700"] * 4

        server = await start_embedded(home)
        server.release()
    finally:
        os.umask(before)
    # As root the server has a user of its own, which passes through the home, and through nothing else in it.
    assert mode(home) == ("0o701" if os.geteuid() == 0 else "0o700")
    assert [mode(home / name) for name in ("keys", "outbox", "postgres/data")] == ["0o700"] * 3
