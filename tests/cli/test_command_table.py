"""The subcommands: each is where the table says, and loads what it needs and no more."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atlas.cli.command_table import COMMANDS, load_command
from atlas.cli.main import app
from tests.cli.conftest import environment
from tests.support import some

# Libraries that take longer to import than a command should run, and that a command without a database does not need.
HEAVY = {
    *("apscheduler", "cryptography", "fastapi", "httpx", "idna", "jinja2", "jsonschema_rs", "msal", "prisma", "resend"),
    *("structlog", "uvicorn", "uvloop"),
}
LIST_LOADED = """
import sys
from atlas.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=open({file!r}, "w"))
"""


@pytest.fixture
def loaded(tmp_path: Path):
    """The modules that a process has loaded when its command has ended."""

    def run(*arguments: str, **settings: str | None) -> set[str]:
        file = tmp_path / "loaded"
        subprocess.run(
            [sys.executable, "-P", "-c", LIST_LOADED.format(file=str(file)), *arguments],
            cwd=tmp_path,
            env=environment(tmp_path / "home", **settings),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return set(file.read_text().split())

    return run


def commands_in(modules: set[str]) -> set[str]:
    """The modules of commands among these."""
    return {module_of(name) for name in COMMANDS} & modules


def module_of(command: str) -> str:
    return f"atlas.cli.{COMMANDS[command][0].partition(':')[0]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(name):
    shown = CliRunner().invoke(app, [name, "--help"])

    assert shown.exit_code == 0, shown.output
    assert f"{name} [OPTIONS]" in shown.output


def test_the_sentence_of_a_command_is_how_its_own_help_begins():
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output

    for name, (_, sentence) in COMMANDS.items():
        assert f" {name} " in listed
        assert sentence in listed
        assert (load_command(name).help or "").replace("\n", " ").startswith(sentence.rstrip(".")), name


def test_a_command_that_does_not_exist_is_refused_with_names_like_it():
    shown = CliRunner().invoke(app, ["jbos"])

    assert shown.exit_code == 2
    assert "'jobs'" in shown.output


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)])
def test_the_overview_loads_no_command(loaded, arguments):
    modules = loaded(*arguments)

    assert commands_in(modules) == set()
    assert not modules & {*HEAVY, "asyncio", "asyncpg", "atlas.settings"}


def test_completion_of_a_command_loads_no_command(loaded):
    asked = {"_ATLAS_COMPLETE": "complete_bash", "COMP_WORDS": "atlas jo", "COMP_CWORD": "1"}
    modules = loaded(**asked)

    assert commands_in(modules) == set()
    assert "typer" in modules


@pytest.mark.parametrize("command", ["jobs", "status", "engine"])
def test_the_help_of_a_command_on_jobs_loads_nothing_that_connects(loaded, command):
    modules = loaded(command, "--help")

    assert module_of(command) in commands_in(modules)
    assert not modules & {*HEAVY, "asyncpg", "atlas.settings", "atlas.cli.runtime"}


@pytest.mark.parametrize("arguments", [("status",), ("jobs", "list"), ("jobs", "show", "01a1e110")])
def test_a_command_on_the_database_loads_what_it_needs_alone(loaded, database_url, arguments):
    modules = loaded(*arguments, DATABASE_URL=database_url)

    assert commands_in(modules) == {module_of(arguments[0])}
    assert "atlas.cli.connection.on_database" in modules
    assert not modules & {*HEAVY, "atlas.generated", "atlas.models.jobs", "rich"}
    assert not any(name.startswith(("atlas.audit", "atlas.workers", "atlas.client")) for name in modules)
    assert len(modules) < 460


def test_enqueue_loads_no_typed_client(loaded, database_url):
    modules = loaded("enqueue", "any.type", "--allow-unknown", DATABASE_URL=database_url)

    assert "atlas.engine.admission" in modules
    assert not modules & {*HEAVY, "atlas.generated", "atlas.prisma_client", "atlas.engine.jobs.lists.job_list", "rich"}
    assert len(modules) < 470


def test_a_list_of_runs_loads_nothing_that_checks_documents(loaded, database_url):
    modules = loaded("workflow", "list", DATABASE_URL=database_url)

    assert "atlas.engine.workflows.find_runs" in modules
    assert not modules & {"jinja2", "jsonschema_rs", "atlas.engine.workflows.declared.check"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "model"),
    some(
        [
            ("tenant list", "Tenant"),
            ("tenant show system", "Tenant"),
            ("token list", "ApiToken"),
            ("trigger list", "JobTrigger"),
            ("host list", "Host"),
            ("definition list", "JobDefinition"),
            ("workflow list", "WorkflowRunState"),
            ("workflow requests", "Intent"),
            ("workflow approvals", "Approval"),
            ("workflow policy list", "PolicyRule"),
            ("webhooks list", "Webhook"),
            ("hooks list", "InboundHook"),
        ],
        every=4,
    ),
)
def test_a_command_with_typed_calls_loads_one_table_and_no_library_that_it_does_not_use(
    loaded, database_url, command, model
):
    """All of this together keeps the start of each of them short; a clock would fail on a busy machine."""
    modules = loaded(*command.split(), DATABASE_URL=database_url)

    assert {name for name in modules if name.startswith("atlas.generated.models_")} <= {
        f"atlas.generated.models_{one}" for one in (model, "Tenant", "JobType")
    }
    assert f"atlas.generated.models_{model}" in modules
    # They call the API in their own process and load what its routes are made with.
    assert modules & {*HEAVY, "pydantic.v1", "rich.console", "atlas.workers.email"} <= {"fastapi"}
    assert len(modules) < 850


@pytest.mark.long
@pytest.mark.parametrize("command", ["audit tail --json", "audit verify --json", "recurring list", "usage", "sign-in"])
def test_other_commands_load_no_library_that_they_do_not_use(loaded, database_url, command):
    modules = loaded(*command.split(), DATABASE_URL=database_url)

    of_routes = {"fastapi"} if command in ("audit tail --json", "recurring list", "usage") else set()
    assert modules & {*HEAVY, "pydantic.v1", "rich.console", "atlas.workers.email"} <= {"cryptography", *of_routes}


def test_a_command_that_prints_json_loads_no_rich(loaded, database_url):
    assert not any(name.startswith("rich") for name in loaded("jobs", "list", "--json", DATABASE_URL=database_url))
