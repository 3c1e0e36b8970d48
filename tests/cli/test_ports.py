"""A port that cannot be listened on is known before anything is started."""

import asyncio
import os
import socket

import pytest

from atlas.cli.programs.ports import PortUnavailable, require_port


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def test_a_free_port_and_any_port_are_fine(taken):
    port = taken.getsockname()[1]
    taken.close()

    await require_port("127.0.0.1", port)
    await require_port("127.0.0.1", 0)


async def test_a_port_in_use_is_refused_with_what_to_do(taken):
    port = taken.getsockname()[1]

    with pytest.raises(PortUnavailable, match=f"Port {port} of 127.0.0.1 is in use .* ATLAS_PORT or --port"):
        await require_port("127.0.0.1", port)


async def test_a_port_that_becomes_free_in_time_is_waited_for(taken):
    asyncio.get_running_loop().call_later(0.2, taken.close)

    await require_port("127.0.0.1", taken.getsockname()[1], within=5)


async def test_a_host_that_is_not_this_machine_is_refused():
    with pytest.raises(PortUnavailable, match=r"Cannot listen on 203\.0\.113\.9: .*ATLAS_HOST"):
        await require_port("203.0.113.9", 0)


async def test_a_host_without_an_address_is_refused():
    with pytest.raises(PortUnavailable, match=r"Cannot listen on no-such-host\.invalid"):
        await require_port("no-such-host.invalid", 0)


async def test_a_port_for_root_is_refused_to_others(monkeypatch):
    def refuse(self: socket.socket, address: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PortUnavailable, match=r"This user may not listen on port 80 of 127\.0\.0\.1"):
        await require_port("127.0.0.1", 80)
