"""The example that docs/audit.md describes: the verifier says of it what is written there, and exports still look so.

With WRITE_EXAMPLE=1 in the environment the example is made anew.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from atlas.audit import Extract, erase, export, new_epoch, record, seal
from atlas.audit.checkpoint import publish
from atlas.audit.keys import public_key_files
from tests.audit.given import CALLER, TENANTS, Installation, event, replaced_key
from tests.support import ROOT

EXAMPLE = ROOT / "examples" / "audit"
FILES = ("everything.jsonl", "range.jsonl", "tenant.jsonl")


async def written(conn, path: Path, extract: Extract) -> None:
    with path.open("wb") as file:
        async for piece in export(conn, extract, actor=CALLER):
            file.write(piece)


async def example(conn, owner, installation: Installation, folder: Path) -> None:
    """Two tenants, personal values of which one is erased, a second epoch with a key that the first one signed."""
    first = installation.key
    for number, tenant in enumerate((TENANTS[0], TENANTS[1], None)):
        await record(conn, event(number, tenant_id=tenant))
    await seal(conn)
    await installation.sign(conn)
    middle = datetime.now(UTC)
    await record(conn, event(3, tenant_id=TENANTS[0]), personal={"to": ["ann@example.org", "bob@example.org"]})
    await erase(conn, "ann@example.org", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)
    second = replaced_key(installation.settings)
    facts = {"key": second.public, "handover": first.hand_over(second)}
    await new_epoch(owner, reason="a new key", actor=CALLER, key=facts)
    await record(conn, event(4, tenant_id=TENANTS[0]))
    await seal(conn)
    await publish(conn, second, installation.copies)
    await record(conn, event(5))

    folder.mkdir(parents=True, exist_ok=True)
    await written(conn, folder / "everything.jsonl", Extract(personal=True))
    await written(conn, folder / "range.jsonl", Extract(since=middle))
    await written(conn, folder / "tenant.jsonl", Extract(TENANTS[0]))
    (folder / "audit.pub").write_text("".join(path.read_text() for path in public_key_files(installation.settings)))
    shutil.copytree(installation.copies, folder / "checkpoints", dirs_exist_ok=True)


def verdict(folder: Path, name: str) -> str:
    """What the verifier prints when it stands alone, as an auditor runs it in that folder."""
    files = ["--export", name, "--key", "audit.pub", "--checkpoints", "checkpoints"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "audit")}
    command = [sys.executable, "-P", "-m", "verifier", *files]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return f"$ python -m verifier {' '.join(files)}\n{done.stdout}exit status {done.returncode}\n"


def shapes(folder: Path) -> dict[str, set[tuple[str, ...]]]:
    """The members of each type of line, in their order."""
    found = defaultdict(set)
    for name in FILES:
        for line in (folder / name).read_text().splitlines():
            record = json.loads(line)
            found[record["type"]].add(tuple(record))
    return found


@pytest.mark.skipif("WRITE_EXAMPLE" not in os.environ, reason="makes the example anew")
async def test_write_the_example(conn, owner, installation):
    shutil.rmtree(EXAMPLE, ignore_errors=True)
    await example(conn, owner, installation, EXAMPLE)
    (EXAMPLE / "verdict.txt").write_text("\n".join(verdict(EXAMPLE, name) for name in FILES))


def test_the_verifier_says_of_the_example_what_is_written_there():
    assert "\n".join(verdict(EXAMPLE, name) for name in FILES) == (EXAMPLE / "verdict.txt").read_text()


async def test_exports_look_as_the_example(conn, owner, installation, tmp_path):
    await example(conn, owner, installation, tmp_path / "made")
    assert shapes(tmp_path / "made") == shapes(EXAMPLE)
    page = (ROOT / "docs" / "audit.md").read_text()
    members = {member for kinds in shapes(EXAMPLE).values() for kind in kinds for member in kind}
    assert [name for name in members if f"`{name}`" not in page] == []


def test_a_changed_example_is_found(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "changed")
    file = tmp_path / "changed" / "everything.jsonl"
    file.write_bytes(file.read_bytes().replace(b"change 3", b"chance 3"))
    said = verdict(tmp_path / "changed", file.name)
    assert "is not as it was when seal 2 was made" in said
    assert "exit status 1" in said


def test_the_key_of_the_example_is_not_in_it():
    assert not list(EXAMPLE.rglob("*.key"))
