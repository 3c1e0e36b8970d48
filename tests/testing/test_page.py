"""The page about tests: its examples run as a user's own tests, and it names everything that the kit can do."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from atlas.testing import AtlasKit
from tests.pgbouncer import without_pooler
from tests.support import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()
_FOUND = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
# The page has two files conftest.py: the second does what the first does, and more.
EXAMPLES = dict(_FOUND)
SHORT_CONFTEST = next(text for name, text in _FOUND if name == "conftest.py")


@pytest.fixture
async def login(owner, database_url) -> AsyncIterator[Callable]:
    """Makes a login with some rights and returns the server's address for it."""
    name = f"tester_{uuid4().hex[:12]}"

    async def make(rights: str) -> str:
        await owner.execute(f"create role {name} login password 'secret' {rights}")
        return re.sub("//[^@]*@", f"//{name}:secret@", database_url)

    yield make
    for row in await owner.fetch(
        "select datname from pg_database d join pg_roles r on r.oid = d.datdba where rolname = $1", name
    ):
        await owner.execute(f'drop database "{row["datname"]}" with (force)')
    await owner.execute(f"drop role {name}")


def run_examples(folder: Path, url: str, *names: str) -> subprocess.CompletedProcess[str]:
    for name in names:
        is_short = name == "conftest.py" and "test_ship.py" not in names
        (folder / name).write_text(SHORT_CONFTEST if is_short else EXAMPLES[name])
    providers = {"OUTBOUND_EMAIL_PROVIDER": "resend", "RESEND_API_KEY": "re_never_used"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env={**os.environ, **providers, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.long
@without_pooler("it maps every login to one of its own")
async def test_the_examples_pass_with_a_login_that_may_create_databases(login, tmp_path):
    done = run_examples(tmp_path, await login("createdb"), *EXAMPLES)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{''.join(EXAMPLES.values()).count('def test_')} passed" in done.stdout


@pytest.mark.long
@without_pooler("it maps every login to one of its own")
async def test_the_first_example_needs_the_first_conftest_alone(login, tmp_path):
    done = run_examples(tmp_path, await login("createdb"), "conftest.py", "test_report.py")

    assert EXAMPLES["conftest.py"] != SHORT_CONFTEST
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
@without_pooler("it maps every login to one of its own")
async def test_a_login_that_may_not_create_databases_is_named_with_the_remedy(login, tmp_path):
    done = run_examples(tmp_path, await login("nocreatedb"), "conftest.py", "test_welcome.py")

    assert re.search(r"The login tester_\w+ of DATABASE_URL may not create databases", done.stdout), done.stdout
    assert re.search(r'alter role "tester_\w+" createdb; or unset DATABASE_URL', done.stdout)
    assert "Traceback" not in done.stdout
    assert "asyncpg" not in done.stdout


def test_the_simulation_passes_and_fails_without_the_key_as_the_page_shows(tmp_path):
    shown = re.search(r"^```text\n(InvariantBroken.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    (tmp_path / "conftest.py").write_text(SHORT_CONFTEST)
    (tmp_path / "test_again.py").write_text(shown[1].partition("Repeat it:")[2])
    for name in ("test_payments.py", "test_crashes.py"):
        (tmp_path / name).write_text(EXAMPLES[name])
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--atlas-sim=100", "--tb=line"]
    # Of the plugins of this environment it needs one alone; most of the time is importing.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_asyncio.plugin"}
    for payments, expected in (
        (EXAMPLES["payments.py"], "3 passed"),
        (EXAMPLES["payments.py"].replace(', key=run.idempotency_key("charge")', ""), shown[1]),
    ):
        (tmp_path / "payments.py").write_text(payments)
        command = [sys.executable, "-m", "pytest", *arguments, str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        told = re.sub(r"^(E +|\S*explore\.py:\d+: \S*)", "", done.stdout, flags=re.MULTILINE)
        assert re.sub(r"\s+", " ", expected).strip() in re.sub(r"\s+", " ", told), done.stdout + done.stderr
    # The last run was without the key: what its failure prints repeats it.
    assert told.count("09:00:00 worker-1 calls Bank.charge: is killed after the call") >= 2, done.stdout


def test_the_page_names_every_method_and_each_has_a_docstring():
    methods = {name: value for name, value in vars(AtlasKit).items() if not name.startswith("_")}
    _, _, table = PAGE.partition("## Reference")

    assert [name for name in methods if not re.search(rf"`[^`]*\b{name}\(", table)] == []
    assert [name for name in methods if not getattr(AtlasKit, name).__doc__] == []
