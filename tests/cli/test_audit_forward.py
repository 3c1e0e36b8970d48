"""`atlas audit forward`, as its users run it."""

import orjson
import pytest

from atlas.audit.sealing.seal import seal
from tests.audit.given import write


@pytest.mark.long
async def test_what_is_sealed_is_forwarded_once_and_the_status_shows_it(atlas, conn, tmp_path):
    await write(conn, 5)
    await seal(conn)
    assert "There are no forwarders" in (await atlas("audit", "forward", "--status")).stdout
    file = tmp_path / "audit.jsonl"
    first = (await atlas("audit", "forward", str(file), "--shape", "ocsf", "--name", "siem", "--json")).document
    assert (first["sent"], first["name"], first["lag_rows"], first["shape"]) == (5, "siem", 0, "ocsf")
    assert [orjson.loads(line)["metadata"]["sequence"] for line in file.read_bytes().splitlines()] == [1, 2, 3, 4, 5]
    again = await atlas("audit", "forward", str(file), "--shape", "ocsf", "--name", "siem")
    assert again.stdout == f"Forwarded 0 rows to {file}; 0 sealed rows left.\n"

    await seal(conn)  # the event of the forwarder
    third = (await atlas("audit", "forward", str(file), "--shape", "ocsf", "--name", "siem", "--json")).document
    assert (third["sent"], third["total_sent"]) == (1, 6)

    [shown] = (await atlas("audit", "forward", "--status", "--json")).document["forwarders"]
    assert (shown["name"], shown["total_sent"], shown["lag_seconds"], shown["is_behind"]) == ("siem", 6, 0, False)
    assert (await atlas("audit", "forward", "--remove", "siem")).code == 0
    assert "There is no forwarder siem" in (await atlas("audit", "forward", "--remove", "siem")).refusal
    unwritable = await atlas("audit", "forward", "ftp://example.org/")
    assert "destination: is not one of syslog+tls://" in unwritable.refusal
    assert (await atlas("audit", "forward")).code == 2
