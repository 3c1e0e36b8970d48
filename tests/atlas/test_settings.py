"""Settings: read from the environment and a .env, refused by the variable's name."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from atlas.errors import SettingsError
from atlas.settings import _READERS, Settings, load_settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path: Path):
    """A folder without a .env and an environment without Atlas's variables."""
    monkeypatch.chdir(tmp_path)
    for field in fields(Settings):
        monkeypatch.delenv(field.name.upper(), raising=False)


def test_without_any_variable_atlas_is_embedded_in_the_working_folder(tmp_path):
    settings = load_settings()

    assert settings.embedded
    assert settings.home == tmp_path / ".atlas"
    assert (settings.atlas_host, settings.atlas_port) == ("127.0.0.1", 8080)
    assert (settings.atlas_lease_seconds, settings.atlas_poll_ms) == (30, 1000)
    assert (settings.atlas_concurrency, settings.atlas_grace_seconds) == (50, 25)


def test_variables_and_a_dotenv_are_read_and_the_environment_wins(monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("ATLAS_PORT=9000\nATLAS_POLL_MS=200\nSOMETHING_ELSE=1\n")
    monkeypatch.setenv("ATLAS_PORT", "9001")
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/atlas")

    settings = load_settings()

    assert (settings.atlas_port, settings.atlas_poll_ms, settings.embedded) == (9001, 200, False)


def test_an_empty_variable_is_an_unset_one(monkeypatch):
    for name in ("DATABASE_URL", "ATLAS_URL", "ATLAS_PORT", "OUTBOUND_EMAIL_PROVIDER"):
        monkeypatch.setenv(name, "")

    settings = load_settings()

    assert settings.embedded
    assert settings.atlas_port == 8080


def test_blanks_and_line_breaks_around_a_value_are_removed(monkeypatch):
    monkeypatch.setenv("RESEND_API_KEY", "re_key\n")
    monkeypatch.setenv("MS_GRAPH_URL", " https://graph.example/v1.0 ")
    monkeypatch.setenv("MS_CLIENT_SECRET", " ")

    settings = load_settings()

    assert (settings.resend_api_key, settings.ms_graph_url) == ("re_key", "https://graph.example/v1.0")
    assert settings.ms_client_secret is None


def test_providers_are_an_ordered_list(monkeypatch):
    monkeypatch.setenv("OUTBOUND_EMAIL_PROVIDER", " Microsoft, resend")

    assert load_settings().outbound_email_provider == ("microsoft", "resend")


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("DATABASE_URL", "sqlite:///x", "must start with postgresql://"),
        ("ATLAS_URL", "127.0.0.1:8080", "must start with http://"),
        ("MS_GRAPH_URL", "https://[bad", "is not the address of a server"),
        ("MS_GRAPH_URL", "http://graph.example/v1.0", "must start with https://, since secrets are sent there"),
        ("RESEND_API_URL", "http://localhost.example.com", "must start with https://"),
        ("MS_AUTHORITY_URL", "http://login.example.com", "must start with https://, for example"),
        ("MS_AUTHORITY_URL", "http://127.0.0.1:9", "must start with https://, for example"),
        ("RESEND_API_URL", "https://exa mple", "is not the address of a server"),
        ("RESEND_API_KEY", "re_a\nb", "holds a line break"),
        ("MS_CLIENT_SECRET", "ümlaut", "a letter beyond ASCII"),
        ("ATLAS_PORT", "eighty", "must be a whole number"),
        ("ATLAS_PORT", "65536", "must be between 0 and 65535"),
        ("ATLAS_LEASE_SECONDS", "0", "must be between 0.2 and 3600"),
        ("ATLAS_LEASE_SECONDS", "nan", "must be between 0.2 and 3600"),
        ("ATLAS_LEASE_SECONDS", "inf", "must be between 0.2 and 3600"),
        ("ATLAS_CURRENCY", "Euro", "must be a currency of ISO 4217"),
        ("ATLAS_POLL_MS", "1", "must be between 10 and 60000"),
        ("ATLAS_CONCURRENCY", "0", "must be between 1 and 10000"),
        ("ATLAS_CHECKPOINT_COPIES", "file:/a,ftp://b", "must list places: file:/folder"),
        ("ATLAS_CHECKPOINT_COPIES", "s3://UPPER", "must list places"),
        ("ATLAS_CHECKPOINT_COPIES", "http://example.com", "must start with https://"),
        ("ATLAS_AUDIT_VERIFY_HOURS", "x", "must be a number"),
        ("ATLAS_AUDIT_MIN_AGE_DAYS", "-1", "must be between 0 and 36500"),
        ("ATLAS_BATCH", "-1", "must be between 1 and 10000"),
        ("ATLAS_GRACE_SECONDS", "-1", "must be between 0 and 3600"),
        ("ATLAS_COMMAND_PROGRAM", "zoltag", "is not the absolute path of a program"),
        ("ATLAS_COMMAND_PROGRAM", "/bin/sh", "which runs its arguments as commands"),
        ("ATLAS_LOG_LEVEL", "loud", "must be debug, info, warning or error"),
        ("OUTBOUND_EMAIL_PROVIDER", "pigeon", "must list one or more of microsoft, resend, smtp, outbox, none"),
        ("OUTBOUND_EMAIL_PROVIDER", ",", "must list one or more of"),
    ],
)
def test_a_wrong_value_is_refused_with_the_variable_and_what_would_be_right(monkeypatch, name, value, right):
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert refused.value.message.startswith(name)
    assert right in refused.value.message
    assert refused.value.remedy == f"Correct {name} in the environment or in .env, or unset it."


def test_a_password_in_a_wrong_address_is_not_repeated(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "mysql://user:hunter2@db/atlas")

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert "hunter2" not in str(refused.value)


def test_every_setting_that_is_no_text_is_read_from_text():
    texts = {field.name for field in fields(Settings) if str(field.type) in ("str | None", "<class 'str'>")}

    assert {field.name for field in fields(Settings)} - texts - {"agent_emails"} <= _READERS.keys()
    assert _READERS.keys() <= {field.name for field in fields(Settings)}


def test_settings_given_by_hand_win_over_everything(monkeypatch):
    monkeypatch.setenv("ATLAS_PORT", "9001")

    assert load_settings(atlas_port=9002).atlas_port == 9002


def test_settings_do_not_change_under_a_running_program():
    with pytest.raises(FrozenInstanceError):
        load_settings().atlas_port = 1
