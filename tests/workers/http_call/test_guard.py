"""Calls reach public addresses alone: the address that is checked is the one that is connected to."""

import ssl
from ipaddress import ip_address, ip_network

import pytest
import trustme

from atlas.outgoing import guarded_transport
from atlas.outgoing.guarded_transport import is_public
from tests.workers.http_call.receiver import Receiver

# The metadata service of cloud machines.
METADATA = ip_address("169.254.169.254")


@pytest.fixture
def names(monkeypatch):
    """What names resolve to, one list of addresses a lookup; the last one stays."""
    known = {}

    def look_up(host):
        found = known[host]
        return [ip_address(one) for one in (found.pop(0) if len(found) > 1 else found[0])]

    monkeypatch.setattr(guarded_transport, "_look_up", look_up)
    return known


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
        *("224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
        *("192.0.0.1", "192.0.0.171", "192.88.99.1", "198.51.100.1", "203.0.113.9", "3fff::1", "5f00::1", "100::1"),
        *("::1", "::", "fe80::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1"),
    ],
)
def test_an_address_within_a_network_is_not_public(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_an_address_of_the_internet_is_public(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:7f00:1]"]
)
async def test_loopback_is_refused_however_it_is_written(calls, receiver, host):
    calls.allow(())

    job = await calls.call(url=f"https://{host}:{receiver.port}/")

    assert (job.status, job.attempt_count, receiver.received) == ("failed", 1, [])
    assert "has an address that is not public" in job.error["message"]


async def test_a_name_is_refused_if_any_of_its_addresses_is_not_public(calls, names):
    names["intranet.example"] = [["1.1.1.1", "10.0.0.7"]]

    job = await calls.call(url="https://intranet.example/")

    assert job.status == "failed"
    assert job.error["message"] == (
        "intranet.example has an address that is not public. Use a public address, or let an operator add its network"
        " to ATLAS_HTTP_ALLOWED_NETWORKS."
    )


async def test_an_operator_allows_networks(calls, receiver, names):
    names["intranet.example"] = [["127.0.0.1"]]
    calls.allow((ip_network("127.0.0.1/32"),))

    job = await calls.call(url=f"http://intranet.example:{receiver.port}/")

    assert job.status == "succeeded", job.error
    assert receiver.received[0].headers["host"] == f"intranet.example:{receiver.port}"


async def test_a_public_address_is_reached_by_tls_alone(calls, names):
    names["hooks.example"] = [["1.1.1.1"]]

    job = await calls.call(url="http://hooks.example/")

    assert job.status == "failed"
    assert "would be reached without encryption" in job.error["message"]


async def test_a_name_that_changes_its_address_gains_nothing(calls, receiver, names):
    """The name is looked up once: what it means later is not asked."""
    names["rebinding.example"] = [["127.0.0.1"], [str(METADATA)]]

    job = await calls.call(url=f"http://rebinding.example:{receiver.port}/")

    assert (job.status, len(receiver.received)) == ("succeeded", 1)


async def test_the_next_address_is_tried_where_one_cannot_be_reached(calls, receiver, names):
    names["two.example"] = [["127.0.0.9", "127.0.0.1"]]

    job = await calls.call(url=f"http://two.example:{receiver.port}/")

    assert job.status == "succeeded", job.error


async def test_a_name_without_an_address_is_tried_again(calls):
    job = await calls.call(url="https://no-such-name.invalid/")

    assert job.status == "queued"
    assert "no-such-name.invalid has no address" in job.error["message"]


@pytest.mark.parametrize("name", ["hooks.example", "other.example"])
async def test_the_certificate_is_checked_against_the_name(calls, names, tmp_path, monkeypatch, name):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example").configure_cert(tls)
    names[name] = [["127.0.0.1"]]

    async with Receiver().running(tls) as receiver:
        job = await calls.call(url=f"https://{name}:{receiver.port}/")

    assert job.status == ("succeeded" if name == "hooks.example" else "queued"), job.error
