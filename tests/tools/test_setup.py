"""The set-up: each step is done once, again when what it was made from has changed, and fetches nothing else."""

import os
import subprocess
import threading
from pathlib import Path

import orjson
import pytest

from tests.support import ROOT
from tools import setup


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch) -> Path:
    """An empty checkout in which every command that the set-up runs is only noted."""
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(setup, "PACKAGES_MARK", tmp_path / ".venv" / "packages.sha256")
    monkeypatch.setattr(setup, "GENERATED", tmp_path / "generated")
    (tmp_path / "pyproject.toml").write_text("[project]")
    (tmp_path / "setup.py").touch()
    (tmp_path / "schema.prisma").write_text("model Job {}")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    ran: list[list[str]] = []

    def note(doing, argv, **_):
        ran.append([str(part) for part in argv])

    monkeypatch.setattr(setup, "run_step", note)
    return ran


def test_packages_are_installed_once_and_again_when_pyproject_changes(checkout, commands, monkeypatch):
    monkeypatch.setattr(setup, "has_node", lambda: True)
    setup.ensure_packages()
    setup.ensure_packages()
    assert len(commands) == 1

    (checkout / "pyproject.toml").write_text("[project]\nversion = '2'")
    setup.ensure_packages()

    assert len(commands) == 2
    assert commands[0][-1] == f"{checkout}[dev,all,generate]"


def test_running_installs_no_tools_of_developers_and_is_content_with_them(checkout, commands, monkeypatch):
    monkeypatch.setattr(setup, "has_node", lambda: True)
    setup.ensure_packages(for_running=True)
    setup.ensure_packages(for_running=True)
    setup.ensure_packages()
    setup.ensure_packages(for_running=True)

    assert [command[-1] for command in commands] == [f"{checkout}[all,generate]", f"{checkout}[dev,all,generate]"]


def test_a_machine_without_node_gets_one_from_the_packages(checkout, commands, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout))
    setup.ensure_packages()

    assert commands[0][-1] == f"{checkout}[dev,all,generate,node]"


@pytest.mark.parametrize(
    ("version", "will_do"),
    [("v20.19.0", True), ("v24.1.0", True), ("v20.17.0", False), ("v18.4.0", False), ("", False)],
)
def test_a_node_that_is_too_old_does_not_count(tmp_path, monkeypatch, version, will_do):
    for name in ("node", "npm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")

    assert setup.has_node() is will_do


@pytest.fixture
def web(checkout: Path, monkeypatch) -> Path:
    """The sources of the web pages in that checkout."""
    web = checkout / "web"
    for folder in ("node_modules", "src/api", "public", "dist"):
        (web / folder).mkdir(parents=True)
    for name in ("package.json", "package-lock.json", ".npmrc", "index.html", "vite.config.ts", "src/main.tsx"):
        (web / name).write_text("{}")
    monkeypatch.setattr(setup, "WEB", web)
    monkeypatch.setattr(setup, "DIST", web / "dist")
    return web


def test_packages_of_npm_are_installed_once_and_again_when_the_lock_changes(web, commands):
    setup.ensure_node_packages()
    setup.ensure_node_packages()
    assert [command[:2] for command in commands] == [["npm", "ci"]]

    (web / "package-lock.json").write_text("{ }")
    setup.ensure_node_packages()
    assert len(commands) == 2


def test_the_linters_of_npm_are_left_out_unless_they_are_wanted_or_there(web, commands):
    setup.ensure_node_packages()
    setup.ensure_node_packages(for_linting=True)
    setup.ensure_node_packages()

    (web / "package-lock.json").write_text("{ }")
    setup.ensure_node_packages()

    assert ["--omit=dev" in command for command in commands] == [True, False, False]


def test_the_pages_are_built_once_and_again_when_a_source_changes(web, commands):
    setup.ensure_pages()
    setup.ensure_pages()
    assert [command[-1] for command in commands] == ["build"]

    for name in ("src/api/schema.d.ts", "src/main.test.ts"):
        (web / name).write_text("not in the pages")
    setup.ensure_pages()
    assert len(commands) == 1

    (web / "src/main.tsx").write_text("{ }")
    setup.ensure_pages()
    (web / "src/other.tsx").write_text("")
    setup.ensure_pages()
    assert len(commands) == 3


def test_a_build_that_fails_shows_why_and_is_done_again(web, monkeypatch, capsys):
    npm = web.parent / ".venv" / "bin" / "npm"
    npm.write_text("#!/bin/sh\necho 'main.tsx: unexpected token' >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError):
        setup.ensure_pages()
    assert "unexpected token" in capsys.readouterr().err
    assert not (web / "dist" / setup.PAGES_MARK).exists()


def test_the_lock_file_names_no_address_to_download_from():
    locked = orjson.loads((ROOT / "web" / "package-lock.json").read_bytes())

    assert "omit-lockfile-registry-resolved=true" in (ROOT / "web" / ".npmrc").read_text().splitlines()
    assert [name for name, one in locked["packages"].items() if "resolved" in one] == []
    assert all(one.get("integrity") for name, one in locked["packages"].items() if name)


def test_a_client_is_current_only_for_the_schema_it_was_made_from(checkout):
    package = checkout / "prisma"
    package.mkdir()
    assert not setup.client_is_current(package)

    (package / "client.py").touch()
    (package / setup.CLIENT_MARK).write_text(setup._expected_client())
    assert setup.client_is_current(package)

    (checkout / "schema.prisma").write_text("model Job { id Int }")
    assert not setup.client_is_current(package)


def test_a_client_is_generated_anew_with_what_it_needs_to_be_shipped(checkout, monkeypatch):
    generated = checkout / "generated"
    generated.mkdir()
    (generated / "old.py").touch()

    def generate(doing, argv, **_):
        if "generate" in argv:
            generated.mkdir()
            for name in ("__init__.py", "client.py"):
                (generated / name).write_text(f"# {name}\n")
        if setup.COPY_LICENSE in argv:
            (generated / "LICENSE").touch()

    monkeypatch.setattr(setup, "run_step", generate)
    setup.ensure_client()

    names = {path.name for path in generated.iterdir()}
    assert names == {"__init__.py", "client.py", "LICENSE", setup.CLIENT_MARK}
    assert (generated / "__init__.py").read_text() == f"{setup.SPARED_IMPORT}# __init__.py\n"
    assert setup.client_is_current(generated)


def test_a_virtual_environment_that_was_moved_here_is_made_anew(checkout, commands):
    pip = checkout / ".venv" / "bin" / "pip"
    (checkout / ".venv" / "bin" / "python").touch()
    pip.write_text("#!/somewhere/else/.venv/bin/python")
    setup.ensure_venv()
    assert commands[0][1:] == ["-m", "venv", "--clear", str(checkout / ".venv")]

    pip.write_text(f"#!{checkout}/.venv/bin/python")
    setup.ensure_venv()
    assert len(commands) == 1


def test_prisma_is_kept_from_fetching_engines_and_from_calling_home(checkout):
    environment = setup._node_environment()

    assert Path(environment["PRISMA_QUERY_ENGINE_BINARY"]).exists()
    assert Path(environment["PRISMA_SCHEMA_ENGINE_BINARY"]).exists()
    assert environment["npm_config_ignore_scripts"] == "true"
    assert environment["CHECKPOINT_DISABLE"] == "1"
    assert environment["npm_config_cache"].startswith(str(checkout))


def test_node_trusts_the_certificates_that_this_machine_trusts(monkeypatch, tmp_path):
    bundle = tmp_path / "certificates.pem"
    bundle.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)
    assert setup._node_environment()["NODE_EXTRA_CA_CERTS"] == str(bundle)

    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/chosen.pem")
    assert setup._node_environment()["NODE_EXTRA_CA_CERTS"] == "/chosen.pem"


def test_a_folder_that_cannot_be_used_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(setup, "ROOT", tmp_path / "gone")

    assert setup.main() == 1
    assert capsys.readouterr().err.startswith("error: the set-up cannot use ")


def test_the_command_of_the_fault_suite_runs_that_of_this_checkout_from_any_folder(checkout):
    setup.PYTHON.write_text('#!/bin/sh\necho "$PYTHONPATH" "$@"\n')
    setup.PYTHON.chmod(0o755)
    setup.ensure_fault_command()

    said = subprocess.check_output([checkout / ".venv/bin/atlas-faults", "replay", "a b"], cwd="/", text=True)
    assert said == f"{checkout} -P -m tests.faults replay a b\n"


@pytest.mark.parametrize("has_node", [True, False])
def test_the_first_set_up_makes_the_pages_while_pip_installs_where_it_can(checkout, monkeypatch, has_node):
    building, installed = threading.Event(), threading.Event()

    def install(*, for_running: bool) -> None:
        assert building.wait(30) if has_node else not building.is_set()
        installed.set()

    def build(*, for_linting: bool) -> None:
        building.set()
        assert installed.wait(30)

    for name, step in (("ensure_packages", install), ("make_pages", build), ("has_node", lambda: has_node)):
        monkeypatch.setattr(setup, name, step)
    for name in ("ensure_venv", "ensure_client", "ensure_type_links", "ensure_fault_command"):
        monkeypatch.setattr(setup, name, lambda: None)

    assert setup.main() == 0
    assert building.is_set()


def test_a_step_that_fails_is_named_and_not_marked_as_done(checkout, web, monkeypatch, capsys):
    def fail(doing, argv, **_):
        raise subprocess.CalledProcessError(1, argv)

    monkeypatch.setattr(setup, "ensure_venv", lambda: None)
    monkeypatch.setattr(setup, "run_step", fail)
    monkeypatch.setattr(setup, "has_node", lambda: True)

    assert setup.main() == 1
    assert "-m pip install" in capsys.readouterr().err
    assert not setup.PACKAGES_MARK.exists()


def test_a_step_that_takes_long_says_what_it_does_again_and_again(monkeypatch, capsys):
    monkeypatch.setattr(setup, "PROGRESS_SECONDS", 0.02)
    said = threading.Event()
    say = setup._say

    def note(message: str) -> None:
        say(message)
        if "Downloading" in message:
            said.set()

    monkeypatch.setattr(setup, "_say", note)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as release:
        waiter = threading.Thread(target=lambda: (said.wait(30), os.close(writing)))
        waiter.start()
        setup.run_step("installing packages", ["sh", "-c", "echo Downloading a.whl; cat >/dev/null"], stdin=release)
        waiter.join()

    first, *later = capsys.readouterr().err.splitlines()
    assert first == "setup: installing packages"
    assert later[-1].startswith("setup: installing packages, 0 s so far: Downloading a.whl")
