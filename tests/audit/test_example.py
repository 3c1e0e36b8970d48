"""The example that docs/audit.md describes: the verifier says of it what is written there, and exports still look so.

With WRITE_EXAMPLE=1 in the environment the example is made anew.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from atlas.audit.exports.export import Extract, export
from atlas.audit.keys import public_key_files
from atlas.audit.personal_data import erase
from atlas.audit.record import record
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import seal
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
    await new_epoch(owner, reason="a new key", actor=CALLER, facts=facts)
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


async def test_exports_look_as_the_example(conn, owner, installation, tmp_path):
    await example(conn, owner, installation, tmp_path / "made")
    if "WRITE_EXAMPLE" in os.environ:
        shutil.rmtree(EXAMPLE, ignore_errors=True)
        shutil.copytree(tmp_path / "made", EXAMPLE)
        (EXAMPLE / "verdict.txt").write_text("\n".join(verdict(EXAMPLE, name) for name in FILES))
    assert shapes(tmp_path / "made") == shapes(EXAMPLE)
    page = (ROOT / "docs" / "audit-format.md").read_text()
    members = {member for kinds in shapes(EXAMPLE).values() for kind in kinds for member in kind}
    assert [name for name in members if f"`{name}`" not in page] == []


def test_the_verifier_says_of_the_example_what_is_written_there():
    assert "\n".join(verdict(EXAMPLE, name) for name in FILES) == (EXAMPLE / "verdict.txt").read_text()


def test_a_changed_example_is_found(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "changed")
    file = tmp_path / "changed" / "everything.jsonl"
    file.write_bytes(file.read_bytes().replace(b"change 3", b"chance 3"))
    said = verdict(tmp_path / "changed", file.name)
    assert "is not as it was when seal 2 was made" in said
    assert "exit status 1" in said


def test_the_key_of_the_example_is_not_in_it():
    assert not list(EXAMPLE.rglob("*.key"))


def hashed(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def root_of(leaves: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashed(b"\x01", root_of(leaves[:half]), root_of(leaves[half:]))


def leaf_of(row: dict[str, Any], body: bytes, number: int) -> bytes:
    passed = datetime.fromisoformat(row["at"]) - datetime(2000, 1, 1, tzinfo=UTC)
    numbers = (row["epoch"].to_bytes(4, "big"), row["xid"].to_bytes(8, "big"), row["id"].to_bytes(8, "big"))
    time = (passed // timedelta(microseconds=1)).to_bytes(8, "big")
    tenant = UUID(row["tenant"] or "0" * 32).bytes
    return hashed(b"\x00\x01\x01", *numbers, time, tenant, number.to_bytes(8, "big"), hashed(body))


def test_the_page_alone_is_enough_to_compute_the_tree_and_check_its_signatures():
    """Written from docs/audit.md, without the verifier."""
    keys = {}
    for line in (EXAMPLE / "audit.pub").read_text().splitlines():
        name, id, key = line.split("+", 2)
        raw = base64.b64decode(key)
        assert hashed(name.encode(), b"\n", raw)[:4].hex() == id
        keys[bytes.fromhex(id)] = Ed25519PublicKey.from_public_bytes(raw[1:])
    leaves, numbers, checked = [], Counter(), 0
    for line in (EXAMPLE / "everything.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        match record["type"]:
            case "row":
                numbers[record["tenant"]] += 1
                body = line.partition(b',"body":')[2][:-1]
                leaves.append(leaf_of(record, body, numbers[record["tenant"]]))
            case "seal":
                leaves.append(hashed(b"\x00\x01\x02", base64.b64decode(record["header"])))
                stored = base64.b64decode(record["leaf_hashes"])
                assert b"".join(leaves[record["first_index"] :]) == stored
                assert root_of(leaves) == base64.b64decode(record["root"])
            case "checkpoint":
                text, _, signature = record["note"].rpartition("\n\n")
                signed = base64.b64decode(signature.split(" ")[2])
                keys[signed[:4]].verify(signed[4:], f"{text}\n".encode())
                assert text.split("\n")[1:3] == [str(len(leaves)), base64.b64encode(root_of(leaves)).decode()]
                checked += 1
    assert checked == 3
