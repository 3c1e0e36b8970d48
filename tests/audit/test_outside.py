"""Checkpoints are copied to places outside: a folder, an HTTPS server, a bucket with object lock, a time stamp authority."""

import base64
import hashlib
import hmac
import re
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from atlas.audit.outside.copy import copy_checkpoints
from atlas.audit.outside.places import Copy, CopyFailed, copied_folders, places_of
from atlas.audit.outside.timestamps import BadTimestamp, accepted_token, timestamp_request
from atlas.audit.sealing.seal import seal
from atlas.audit.verifier.copies import read_copies
from atlas.engine.alerts import find_alerts
from atlas.settings import load_settings
from tests.audit.given import write
from tests.programs import needs_program

HOUR, NOW = timedelta(hours=1), timedelta()
TSA_CONFIG = """
[tsa]
default_tsa = one
[one]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
"""


class Outside:
    """A server on this machine that stands in for a collector, a bucket and a time stamp authority."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.requests, self.status = folder, [], 200
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outside.requests.append((self.path, dict(self.headers), body))
                self.respond(outside.status, b"")

            def do_POST(self) -> None:
                query, reply = outside.folder / "query.tsq", outside.folder / "reply.tsr"
                query.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
                outside.openssl("ts", "-reply", "-config", "tsa.cnf", "-queryfile", query.name, "-out", reply.name)
                self.respond(outside.status, reply.read_bytes())

            def respond(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def become_authority(self) -> None:
        (self.folder / "tsa.cnf").write_text(TSA_CONFIG.format(folder=self.folder))
        (self.folder / "serial").write_text("01")
        self.openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.pem"),
            *("-subj", "/CN=stand-in", "-addext", "extendedKeyUsage=critical,timeStamping"),
        )


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    server = Outside(folder)
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
async def signed(conn, installation):
    await write(conn, 3)
    await seal(conn)
    await installation.sign(conn)
    return installation


def settings_of(installation, *places, **more):
    return load_settings(atlas_home=installation.settings.home, atlas_checkpoint_copies=",".join(places), **more)


async def copy(conn, settings, *, every=HOUR):
    return await copy_checkpoints(conn, places_of(settings), every=every, pause=NOW, by="test")


@needs_program("openssl", "ts", "-help")
async def test_every_place_gets_the_newest_checkpoint_and_no_copy_before_it_is_due(conn, signed, outside, tmp_path):
    outside.become_authority()
    settings = settings_of(
        signed,
        *(f"file:{tmp_path}/worm", f"{outside.url}/drop", "s3://evidence/atlas", f"tsa:{outside.url}/tsa"),
        atlas_bucket_endpoint=outside.url,
        atlas_bucket_access_key_id="AKID",
        atlas_bucket_secret_access_key="hunter2",
        atlas_checkpoint_token="collector",
    )
    [note] = signed.notes

    assert await copy(conn, settings) == 4
    assert await copy(conn, settings, every=NOW) == 0  # nothing new
    await write(conn, 1)
    await seal(conn)
    await signed.sign(conn)
    assert await copy(conn, settings) == 0
    await conn.execute(
        'update atlas.system_state set value = replace(value::text, \'"at": "2\', \'"at": "1\')::jsonb'
        " where key = 'checkpoint_copies'"
    )
    assert await copy(conn, settings) == 4

    first, second = sorted((tmp_path / "worm").iterdir())
    assert (first.read_text(), first.stat().st_mode & 0o777) == (note, 0o444)
    assert copied_folders(settings) == [tmp_path / "worm"]
    # A verification reads them as they are.
    assert read_copies(tmp_path / "worm") == signed.notes
    dropped = [(headers, body) for path, headers, body in outside.requests if path == f"/drop/{first.name}"]
    assert [(headers["Authorization"], body.decode()) for headers, body in dropped] == [("Bearer collector", note)]
    [(headers, body)] = [(h, b) for path, h, b in outside.requests if path == f"/evidence/atlas/{second.name}"]
    assert body.decode() == signed.notes[1]
    assert headers["x-amz-object-lock-mode"] == "COMPLIANCE"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", headers["x-amz-object-lock-retain-until-date"])
    require_signature(headers, f"/evidence/atlas/{second.name}", body, "hunter2")
    stamps = signed.copies / "timestamps"
    outside.openssl(
        *("ts", "-verify", "-data", str(stamps / f"{first.name}.note"), "-in", str(stamps / f"{first.name}.tsr")),
        *("-CAfile", "tsa.pem"),
    )


def require_signature(headers, path, body, secret):
    """What a server of S3 does: it signs the request again with the secret, from what it received."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKID/(.+), SignedHeaders=(.+), Signature=([0-9a-f]{64})", headers["authorization"]
    )
    scope, names, signature = found.groups()
    received = {name.lower(): value for name, value in headers.items()}
    digest = hashlib.sha256(body)
    assert received["x-amz-content-sha256"] == digest.hexdigest()
    assert base64.b64decode(received["x-amz-checksum-sha256"]) == digest.digest()
    assert {"host", "x-amz-date", "x-amz-object-lock-mode"} <= set(names.split(";"))
    lines = "".join(f"{name}:{received[name]}\n" for name in names.split(";"))
    request = f"PUT\n{path}\n\n{lines}\n{names}\n{digest.hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{received['x-amz-date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    assert hmac.new(key, text.encode(), "sha256").hexdigest() == signature


async def test_a_place_that_takes_no_copy_is_an_alert_and_the_others_get_theirs(conn, signed, outside, tmp_path):
    outside.status = 403
    settings = settings_of(signed, f"{outside.url}/drop", f"file:{tmp_path}/worm")

    assert await copy(conn, settings) == 1
    assert await find_alerts(conn) == []
    await conn.execute(
        "update atlas.system_state set value = jsonb_set(value, array[$1, 'failing_since'], '\"2020-01-01 00:00Z\"')"
        " where key = 'checkpoint_copies'",
        f"{outside.url}/drop",
    )
    assert await copy(conn, settings) == 0
    [alert] = await find_alerts(conn)
    assert (alert.kind, alert.subject) == ("checkpoint_not_copied", f"{outside.url}/drop")
    assert alert.since == datetime(2020, 1, 1, tzinfo=UTC)
    assert "responded with 403" in alert.message

    outside.status = 201
    assert await copy(conn, settings) == 1
    assert await find_alerts(conn) == []
    stored = orjson.loads(await conn.fetchval("select value from atlas.system_state where key = 'checkpoint_copies'"))
    assert {value["error"] for value in stored.values()} == {None}


async def test_one_process_copies_at_a_time(conn, signed, tmp_path):
    places = places_of(settings_of(signed, f"file:{tmp_path}/worm"))
    first = await copy_checkpoints(conn, places, every=HOUR, pause=HOUR, by="one")
    (tmp_path / "worm").rename(tmp_path / "gone")
    await conn.execute("update atlas.system_state set value = '{}' where key = 'checkpoint_copies'")

    assert (first, await copy_checkpoints(conn, places, every=HOUR, pause=HOUR, by="two")) == (1, 0)


@pytest.mark.long
@needs_program("openssl", "ts", "-help")
async def test_a_response_that_is_no_time_stamp_of_the_note_is_refused(signed, outside):
    query, imprint = timestamp_request(b"a note")
    _, other = timestamp_request(b"a note")
    outside.become_authority()
    (outside.folder / "query.tsq").write_bytes(query)
    outside.openssl("ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query.tsq", "-out", "reply.tsr")
    reply = (outside.folder / "reply.tsr").read_bytes()

    assert accepted_token(reply, imprint) == reply
    for wrong, expected, reason in (
        (reply, other, "another content or request"),
        (reply[:-1], imprint, "cut off"),
        (b"", imprint, "cut off"),
        (b"<html>", imprint, "cut off|not a time stamp"),
        (bytes.fromhex("30053003020102"), imprint, "refused with status 2"),
    ):
        with pytest.raises(BadTimestamp, match=reason):
            accepted_token(wrong, expected)
    with pytest.raises(CopyFailed, match="cannot be reached"):
        [place] = places_of(settings_of(signed, "https://127.0.0.1:9/x"))
        await place.store(Copy("log", 1, "note"))
