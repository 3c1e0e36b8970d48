"""The subcommands: each is where the table says, and is loaded only when it is asked for."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from atlas.cli.command_table import COMMANDS
from atlas.cli.main import app


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(name):
    shown = CliRunner().invoke(app, [name, "--help"])

    assert shown.exit_code == 0, shown.output
    assert f"{name} [OPTIONS]" in shown.output
    assert name in CliRunner().invoke(app, ["--help"]).output


def test_a_command_does_not_load_the_others():
    code = (
        "import sys; from atlas.cli.main import main\n"
        "try: main()\n"
        "finally: print('loaded:', [one for one in ('fastapi', 'msal', 'resend', 'apscheduler') if one in sys.modules])"
    )
    argv = [sys.executable, "-c", code, "status", "--help"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout

    assert said.splitlines()[-1] == "loaded: []"
