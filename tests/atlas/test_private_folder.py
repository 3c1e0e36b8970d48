"""What Atlas makes in ATLAS_HOME is for its owner alone, whatever the umask."""

import os
import stat
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from atlas.audit.keys import signing_key
from atlas.cli.doctor.machine import check_machine
from atlas.engine.secrets.key import load_key
from atlas.home import private_folder
from atlas.home.private_folder import tighten_home
from atlas.logs import get_logger
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


@pytest.mark.usefixtures("default_logs")
def test_folders_that_others_may_enter_are_reported_and_closed_at_the_start(tmp_path, monkeypatch):
    # A logger that was used before keeps its processors, and nothing of it would be captured.
    monkeypatch.setattr(private_folder, "log", get_logger("atlas.home"))
    home = tmp_path / "atlas"
    for name, wide in ((".", 0o755), ("keys", 0o775), ("outbox", 0o2770), ("checkpoints", 0o755)):
        (home / name).mkdir(parents=True, exist_ok=True)
        (home / name).chmod(wide)
    settings = load_settings(atlas_home=home)
    [found] = [one for one in check_machine(settings) if one.check == "folders"]
    assert found.verdict == "warn"
    assert f"{home} (755), {home}/keys (775), {home}/outbox (2770)" in found.found

    with capture_logs() as logs:
        tighten_home(home)

    modes = [mode(home / name) for name in (".", "keys", "outbox", "checkpoints")]
    assert modes == ["0o700", "0o700", "0o2700", "0o755"]
    assert not [one for one in check_machine(settings) if one.check == "folders"]
    assert [(line["event"], line["before"]) for line in logs] == [
        ("closed a folder to others", before) for before in ("755", "775", "2770")
    ]
