"""`make cluster`: a Patroni cluster on loopback to try Atlas on, until Ctrl-C."""

import asyncio
import signal
import sys

from tests.cluster.patroni import COMMANDS, PatroniCluster
from tests.programs import why_unusable

TEXT = """\
Three servers run under Patroni: {members}. In another terminal, in this folder:

  export DATABASE_URL='{hosts_url}'
  export ATLAS_OWNER_URL='{owner_url}'
  export ATLAS_HOME={folder}/home
  .venv/bin/atlas up

or through HAProxy, with

  export DATABASE_URL='{haproxy_url}'

See who leads, and kill the leader as a loss of power does; Patroni replaces it after about {seconds} s:

  curl --silent http://127.0.0.1:{rest_port}/cluster
  kill -USR1 {pid}

Sent once more, the signal starts what was killed again. Logs and data are in {folder}. Ctrl-C stops and removes all of it.
"""


async def serve(cluster: PatroniCluster) -> None:
    """Run the cluster, and kill or start servers by signals, until one of the signals to end."""
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        loop.add_signal_handler(number, signals.put_nowait, number)
    starting = asyncio.create_task(cluster.start())
    ending = asyncio.create_task(signals.get())
    await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return
    await starting
    print(cluster.described(TEXT), flush=True)
    while await ending == signal.SIGUSR1:
        await _kill_or_start(cluster)
        ending = asyncio.create_task(signals.get())


async def _kill_or_start(cluster: PatroniCluster) -> None:
    killed = [node for node in cluster.nodes if not node.is_running]
    for node in killed:
        node.start()
        print(f"Server {node.name} starts again and follows the new leader.", flush=True)
    if not killed:
        leader = await cluster.leader()
        leader.kill()
        print(f"Server {leader.name} at {leader.address} was killed.", flush=True)


def main() -> None:
    """Start it, print how to use it, and remove it at the end."""
    reasons = [reason for command in COMMANDS if (reason := why_unusable(*command))]
    if reasons:
        sys.exit(
            f"error: {'; '.join(reasons)}. Install Debian's packages patroni, etcd-server, haproxy and postgresql."
        )
    cluster = PatroniCluster()
    try:
        asyncio.run(serve(cluster))
    finally:
        cluster.stop()


main()
