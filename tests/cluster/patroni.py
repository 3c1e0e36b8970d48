"""A Patroni cluster on loopback: an etcd, three servers that replicate synchronously, and HAProxy before them."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from atlas.db.login import make_login
from atlas.db.pool import connect
from atlas.postgres.as_root import as_server_user, give_to_server, open_path_to
from tests.programs import find_program, needs_program
from tests.support import free_port, until

# What each is asked first.
QUESTIONS = {"etcd": "--version", "patroni": "--version", "haproxy": "-v"}
PROGRAMS = {name: find_program(name) for name in QUESTIONS}
# Where Debian has the server's own programs; the newest of several.
SERVER = max((found.parent for found in Path("/usr/lib/postgresql").glob("*/bin/postgres")), default=None)
COMMANDS = [*QUESTIONS.items(), (str(SERVER / "postgres") if SERVER else "postgres", "--version")]
needs_patroni = [needs_program(*command) for command in COMMANDS]

NAMES = ("a", "b", "c")
PASSWORD = "secret"
DATABASE = "atlas"
# A leader that is gone is replaced after so many seconds. Patroni's own default is 30.
TTL_SECONDS = 10

HAPROXY = """
global
  maxconn 2000
defaults
  mode tcp
  timeout connect 4s
  timeout client 1h
  timeout server 1h
  timeout check 2s
listen primary
  bind 127.0.0.1:{port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
{servers}
"""


class Node:
    """One server, and the Patroni that runs it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.port, self.rest_port = free_port(), free_port()
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.configuration = folder / f"{name}.yml"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        assert PROGRAMS["patroni"] is not None
        # Debian's Patroni is a program of the system's Python, which must not find the packages of this one.
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        self.process = _start([PROGRAMS["patroni"], str(self.configuration)], self.log, env=environment)

    def kill(self) -> None:
        """End it as a loss of power does: Patroni and every process of the server at once, without a word."""
        assert self.process is not None
        victims = [self.process.pid]
        with suppress(OSError, ValueError, psutil.Error):
            server = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
            victims += [server.pid, *(child.pid for child in server.children(recursive=True))]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.wait()
        self.process = None


class PatroniCluster:
    """`haproxy_url` leads through HAProxy, `hosts_url` names all three servers."""

    def __init__(self) -> None:
        # Not in the folder of the tests: Patroni's user must reach it.
        self.folder = Path(tempfile.mkdtemp(prefix="atlas-cluster-"))
        self.nodes = [Node(name, self.folder) for name in NAMES]
        self.haproxy_port, self._etcd_port = free_port(), free_port()
        self._others: list[subprocess.Popen[bytes]] = []

    @property
    def haproxy_url(self) -> str:
        return self._url("atlas_app", f"127.0.0.1:{self.haproxy_port}")

    @property
    def hosts_url(self) -> str:
        return self._url("atlas_app", *(node.address for node in self.nodes)) + "?target_session_attrs=read-write"

    @property
    def owner_url(self) -> str:
        return self._url("postgres", *(node.address for node in self.nodes)) + "?target_session_attrs=read-write"

    async def start(self) -> None:
        """Start everything, and make the database and the login of Atlas's programs."""
        assert SERVER is not None
        open_path_to(self.folder, SERVER)
        self._start_etcd()
        await until(self._etcd_responds)
        for node in self.nodes:
            node.configuration.write_text(json.dumps(self._configuration(node)))
            give_to_server(node.configuration)
            node.start()
        self._start_haproxy()
        await self.until_whole(within=240)
        conn = await connect(self.owner_url.replace(f"/{DATABASE}", "/postgres"))
        await conn.execute(f"create database {DATABASE}")
        login = await make_login(conn)
        await conn.execute(f"alter role {login} password '{PASSWORD}'")
        await conn.close()

    async def until_whole(self, *, within: float = 120) -> None:
        """Wait until a leader writes, and both others follow it, one of them synchronously."""

        async def is_whole() -> bool:
            roles = [member["role"] for member in await self.members() if member["state"] in ("running", "streaming")]
            return sorted(roles) == ["leader", "replica", "sync_standby"]

        await until(is_whole, within=within)

    async def members(self) -> Sequence[Any]:
        """The members as those that run see them."""
        async with httpx.AsyncClient(timeout=2) as client:
            for node in self.nodes:
                if node.is_running:
                    with suppress(httpx.HTTPError, ValueError, KeyError):
                        found = await client.get(f"http://127.0.0.1:{node.rest_port}/cluster")
                        members: Sequence[Any] = found.json()["members"]
                        return members
        return []

    async def leader(self) -> Node:
        """The server that leads now."""
        names = [member["name"] for member in await self.members() if member["role"] == "leader"]
        return next(node for node in self.nodes if node.name in names)

    def described(self, text: str) -> str:
        """A text for people, with what they need to know of this cluster."""
        return text.format(
            members=", ".join(f"{node.name} at {node.address}" for node in self.nodes),
            hosts_url=self.hosts_url,
            haproxy_url=self.haproxy_url,
            owner_url=self.owner_url,
            folder=self.folder,
            rest_port=self.nodes[0].rest_port,
            seconds=TTL_SECONDS,
            pid=os.getpid(),
        )

    def stop(self) -> None:
        """Stop everything and remove its files."""
        for node in self.nodes:
            if node.is_running:
                node.kill()
        for process in self._others:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _url(self, login: str, *addresses: str) -> str:
        return f"postgresql://{login}:{PASSWORD}@{','.join(addresses)}/{DATABASE}"

    def _start_etcd(self) -> None:
        assert PROGRAMS["etcd"] is not None
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        addresses = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        peers = ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        command = [PROGRAMS["etcd"], "--data-dir", str(self.folder / "etcd"), *addresses, *peers]
        # Debian builds it for machines that it calls unsupported.
        environment = {"PATH": os.defpath, "ETCD_UNSUPPORTED_ARCH": "arm64"}
        self._others.append(_start(command, self.folder / "etcd.log", env=environment))

    async def _etcd_responds(self) -> bool:
        async with httpx.AsyncClient(timeout=2) as client:
            with suppress(httpx.HTTPError):
                return (await client.get(f"http://127.0.0.1:{self._etcd_port}/health")).is_success
        return False

    def _start_haproxy(self) -> None:
        assert PROGRAMS["haproxy"] is not None
        servers = [f"  server {node.name} {node.address} check port {node.rest_port}" for node in self.nodes]
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(HAPROXY.format(port=self.haproxy_port, servers="\n".join(servers)))
        command = [PROGRAMS["haproxy"], "-db", "-f", str(configuration)]
        self._others.append(_start(command, self.folder / "haproxy.log"))

    def _configuration(self, node: Node) -> dict[str, Any]:
        """Of one Patroni; JSON is YAML."""
        logins = {"superuser": "postgres", "replication": "replicator", "rewind": "rewinder"}
        return {
            "scope": "atlas",
            "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest_port}", "connect_address": f"127.0.0.1:{node.rest_port}"},
            "etcd3": {"host": f"127.0.0.1:{self._etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_SECONDS,
                    "loop_wait": 1,
                    "retry_timeout": 4,
                    "synchronous_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"max_connections": 200, "wal_log_hints": "on", "max_wal_size": "1GB"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
                "pg_hba": [
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication all 127.0.0.1/32 scram-sha-256",
                ],
            },
            "postgresql": {
                "listen": node.address,
                "connect_address": node.address,
                "data_dir": str(node.data),
                "bin_dir": str(SERVER),
                "pgpass": str(self.folder / f"{node.name}.pgpass"),
                "parameters": {"unix_socket_directories": ""},
                # A server that cannot be rewound is copied anew.
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "authentication": {kind: {"username": login, "password": PASSWORD} for kind, login in logins.items()},
            },
        }


@asynccontextmanager
async def patroni_cluster() -> AsyncIterator[PatroniCluster]:
    """A cluster for the time of a block."""
    cluster = PatroniCluster()
    try:
        await asyncio.wait_for(cluster.start(), 300)
        yield cluster
    finally:
        await asyncio.to_thread(cluster.stop)


def _start(command: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C in a terminal is for who started the cluster.
            start_new_session=True,
            **as_server_user(),
            **options,
        )
