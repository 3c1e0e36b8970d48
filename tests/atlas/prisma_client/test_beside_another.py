"""A project generates a typed client of its own tables, and uses it in one process with that of Atlas."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import needs_program
from tools import setup

SCHEMA = """
generator client {
  provider  = "prisma-client-py"
  output    = "prisma"
  interface = "asyncio"
}
datasource db {
  provider = "postgresql"
  url      = env("DATABASE_URL")
}
model Job {
  id    Int    @id
  title String
}
"""
# The project's model has the name of one of Atlas's.
PROGRAM = """
import prisma, prisma.models
from atlas import AtlasPrisma
from atlas.prisma import models, errors
own = prisma.models.Job(id=1, title="cook")
assert own.model_dump() == {"id": 1, "title": "cook"}
assert not {"title"} & models.Job.model_fields.keys() and "leaseExpiresAt" in models.Job.model_fields
assert not issubclass(AtlasPrisma, prisma.Prisma) and errors.PrismaError is not prisma.errors.PrismaError
assert prisma.Prisma(auto_register=False).job._model is prisma.models.Job
print(prisma.__file__)
"""


@pytest.mark.slow
@needs_program("node", "--version")
def test_a_generated_client_of_other_tables_lives_beside_ours(tmp_path: Path):
    (tmp_path / "schema.prisma").write_text(SCHEMA)
    command = [str(setup.VENV / "bin" / "prisma"), "generate", "--schema", str(tmp_path / "schema.prisma")]
    subprocess.run(command, env=setup._node_environment(), cwd=tmp_path, check=True, capture_output=True)
    # The folder of a script is the first on the path.
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, tmp_path / "program.py"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "prisma" / "__init__.py")
