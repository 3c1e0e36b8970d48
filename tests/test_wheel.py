"""The wheel in an empty virtual environment: it runs a project whose packages have the same names as our folders."""

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import orjson
import pytest

from tests.cli.conftest import environment, run
from tests.support import ROOT, until
from tools.setup import FLOORS

NOT_SOURCE = (".*", "build", "dist", "node_modules", "results", "tests", "__pycache__", "*.egg-info")
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
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of this checkout. What Atlas depends on comes from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    source, dist, venv = folder / "source", folder / "dist", folder / "venv"
    # Of a copy: a build leaves files beside the source.
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    shutil.copytree(ROOT / "web" / "dist", source / "web" / "dist")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # With the build tools that are installed: the set-up has built with those that the build asks for.
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, source], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [wheel] = dist.glob("*.whl")
    subprocess.run(
        [*pip, "--python", venv / "bin" / "python", "install", "--no-deps", "--no-compile", wheel], check=True
    )
    # After the wheel's own on the path; the `.pth` files in there, which lead to this checkout, are not read.
    (site_packages(venv) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # Where the project has generated a typed client of its own tables.
    (site_packages(venv) / "prisma.py").write_text('OWNER = "the project"\n')
    return venv


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


def test_the_wheel_brings_the_web_pages(venv):
    pages = site_packages(venv) / "atlas" / "web" / "dist"
    assert (pages / "index.html").exists()
    assert {path.suffix for path in (pages / "assets").iterdir()} >= {".js", ".css", ".br", ".gz"}


def test_the_wheel_brings_every_statement(venv):
    sources = [path.read_text() for floor in ("atlas", *FLOORS) for path in (ROOT / floor).rglob("*.py")]
    paths = sorted({name for source in sources for name in re.findall(r'statement\("([^"]+)"\)', source)})
    code = "import sys; from atlas.source import source_file; print([p for p in sys.argv[1:] if not source_file(p).exists()])"
    ran = subprocess.run([venv / "bin" / "python", "-c", code, *paths], check=True, capture_output=True, text=True)
    assert len(paths) > 100
    assert ran.stdout.strip() == "[]"


@pytest.mark.long
async def test_every_program_of_the_wheel_finds_its_files(venv, tmp_path):
    code = """
from importlib import import_module
for name in ("main", "up", "api", "worker", "scheduler", "agent", "doctor", "backup", "audit", "workflow", "trigger"):
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
