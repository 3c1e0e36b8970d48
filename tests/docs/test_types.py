"""The Python examples of the pages are typed."""

import subprocess
import sys

import pytest

from tests.docs.typed_examples import write_examples
from tests.support import ROOT


# `make lint` does the same.
@pytest.mark.long
def test_the_examples_pass_a_strict_type_checker(tmp_path):
    files = write_examples(tmp_path / "examples")
    assert len(files) > 30
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "examples")], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
