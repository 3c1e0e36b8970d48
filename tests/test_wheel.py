"""The wheel in an empty virtual environment: it runs a project whose packages have the same names as our folders."""

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import orjson
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cli.conftest import environment, run
from tests.support import ROOT, publish, until
from tools.release import ENQUEUE
from tools.setup import FLOORS

NOT_SOURCE = (".*", "build", "dist", "node_modules", "results", "tests", "__pycache__", "*.egg-info")
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OURS = ("api", "engine", "workers")
APP = """
import api, engine, prisma, workers
from atlas import JobContext, job
from pydantic import BaseModel

class Greeting(BaseModel):
    name: str

@job("greet")
async def greet(input: Greeting, ctx: JobContext) -> dict[str, object]:
    return {"greeting": f"Hello {input.name}", "packages": [api.OWNER, engine.OWNER, prisma.OWNER, workers.OWNER]}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source, dist = folder / "source", folder / "dist"
    # Of a copy: a build leaves files beside the source.
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    shutil.copytree(ROOT / "web" / "dist", source / "web" / "dist")
    # With the build tools that are installed: the set-up has built with those that the build asks for.
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, source], check=True)
    return next(dist.glob("*.whl"))


def install(wheel: Path, venv: Path) -> None:
    """Install the wheel alone into a new environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([*PIP, "--python", python, "install", "--no-deps", "--no-compile", wheel], check=True)


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of this checkout. What Atlas depends on comes from the one that runs the tests."""
    venv = tmp_path_factory.mktemp("all") / "venv"
    install(wheel, venv)
    # After the wheel's own on the path; the `.pth` files in there, which lead to this checkout, are not read.
    (site_packages(venv) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # Where the project has generated a typed client of its own tables.
    (site_packages(venv) / "prisma.py").write_text('OWNER = "the project"\n')
    return venv


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs without any extra, as links to the packages of the tests."""
    venv = tmp_path_factory.mktemp("base") / "venv"
    install(wheel, venv)
    [own] = site_packages(venv).glob("atlas_jobs-*.dist-info")
    for distribution in _needed(Distribution.at(own)):
        for name in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."} - {"__pycache__"}:
            (site_packages(venv) / name).symlink_to(distribution.locate_file(name))
    return venv


def _needed(distribution: Distribution) -> Iterator[Distribution]:
    """What a distribution needs without extras, and what that needs."""
    waiting, seen = [distribution], set[str]()
    while waiting:
        for requirement in map(Requirement, waiting.pop().requires or ()):
            name = canonicalize_name(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and name not in seen:
                seen.add(name)
                waiting.append(Distribution.from_name(name))
                yield waiting[-1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an app, and with packages of its own under names that our folders have."""
    folder = tmp_path / "project"
    for name in OURS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('OWNER = "the project"\n')
    (folder / "myapp.py").write_text(APP)
    return folder


def site_packages(venv: Path) -> Path:
    [found] = venv.glob("lib/python*/site-packages")
    return found


@pytest.mark.long
def test_the_wheel_brings_one_package(venv):
    names = {path.name for path in site_packages(venv).iterdir()} - {"dependencies.pth", "prisma.py"}
    assert sorted(name.split("-")[0] for name in names) == ["atlas", "atlas_jobs"]


@pytest.mark.long
def test_the_wheel_brings_the_web_pages(venv):
    pages = site_packages(venv) / "atlas" / "web" / "dist"
    assert (pages / "index.html").exists()
    assert {path.suffix for path in (pages / "assets").iterdir()} >= {".js", ".css", ".br", ".gz"}


@pytest.mark.long
def test_the_wheel_brings_every_statement(venv):
    sources = [path.read_text() for floor in ("atlas", *FLOORS) for path in (ROOT / floor).rglob("*.py")]
    paths = sorted({name for source in sources for name in re.findall(r'statement\("([^"]+)"\)', source)})
    code = "import sys; from atlas.source import source_file; print([p for p in sys.argv[1:] if not source_file(p).exists()])"
    ran = subprocess.run([venv / "bin" / "python", "-c", code, *paths], check=True, capture_output=True, text=True)
    assert len(paths) > 100
    assert ran.stdout.strip() == "[]"


@pytest.mark.long
async def test_the_wheel_without_extras_enqueues(base, database_url, owner, tmp_path):
    env = environment(tmp_path, PYTHONPATH=None, DATABASE_URL=database_url)
    await publish(owner, "smoke")
    ran = await run([str(base / "bin" / "python"), "-c", ENQUEUE], cwd=tmp_path, env=env)

    assert ran.code == 0, ran.stderr
    assert [row["job_type"] for row in await owner.fetch("select job_type from atlas.jobs")] == ["smoke"]


@pytest.mark.long
async def test_the_wheel_without_extras_says_what_to_install(base, tmp_path):
    env = environment(tmp_path, PYTHONPATH=None)
    ran = await run([str(base / "bin" / "atlas"), "status", "--json"], cwd=tmp_path, env=env)
    assert ran.code == 1
    assert ran.document["error"]["remedy"] == "Run `pip install 'atlas-jobs[server]'`."
    assert "pip install 'atlas-jobs[server]'" in ran.stderr

    for module, extra in (("api.app", "server"), ("scheduler.recurring", "server"), ("postgres.pg_ctl", "embedded")):
        ran = await run([str(base / "bin" / "python"), "-c", f"import atlas.{module}"], cwd=tmp_path, env=env)
        assert f"pip install 'atlas-jobs[{extra}]'" in ran.stderr


@pytest.mark.long
async def test_every_program_of_the_wheel_finds_its_files(venv, tmp_path):
    code = """
from importlib import import_module
programs = [f"programs.{name}" for name in ("up", "api", "worker", "scheduler", "agent")]
for name in ("main", *programs, "doctor", "backup", "audit", "workflow", "trigger"):
    import_module(f"atlas.cli.{name}")
import atlas.api.app
from atlas.db.migrations import load_migrations
from atlas.engine.workflows.declared.examples import example_workflows
print(len(load_migrations()), len(example_workflows()))"""
    ran = await run(
        [str(venv / "bin" / "python"), "-c", code], cwd=tmp_path, env=environment(tmp_path, PYTHONPATH=None)
    )
    migrations = len(list((ROOT / "migrations").glob("*/migration.sql")))
    assert (ran.code, ran.stdout.split()) == (0, [str(migrations), "3"]), ran.stderr


@pytest.mark.slow
async def test_a_project_with_packages_named_like_ours_runs_its_jobs(venv, project, tmp_path):
    env = environment(tmp_path / "home", PYTHONPATH=None)

    async def atlas(*arguments: str):
        return (await run([str(venv / "bin" / "atlas"), *arguments, "--json"], cwd=project, env=env)).document

    where = "import atlas, atlas.engine; print(atlas.__file__, atlas.engine.__file__)"
    files = (await run([str(venv / "bin" / "python"), "-P", "-c", where], cwd=project, env=env)).stdout.split()
    assert all(Path(file).is_relative_to(site_packages(venv)) for file in files)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    up = await asyncio.create_subprocess_exec(
        *(venv / "bin" / "atlas", "up", "--app", "myapp", "--port", port, "--no-demo", "--json"),
        cwd=project,
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert orjson.loads(await up.stdout.readuntil(b"}\n"))["database"] == "embedded"
        made = await atlas("enqueue", "greet", "--app", "myapp", "--input", '{"name": "Dana"}')

        async def has_ended() -> bool:
            return (await atlas("jobs", "show", made["id"]))["job"]["status"] not in ("queued", "running")

        await until(has_ended, within=120)
        job = (await atlas("jobs", "show", made["id"]))["job"]
        assert job["status"] == "succeeded", job
        assert job["output"] == {"greeting": "Hello Dana", "packages": ["the project"] * 4}
        up.send_signal(signal.SIGINT)
        assert await up.wait() == 0
    finally:
        if up.returncode is None:
            up.kill()
            await up.wait()
    await until(lambda: not (tmp_path / "home" / "postgres" / "data" / "postmaster.pid").exists())
