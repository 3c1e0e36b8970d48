"""Outgoing HTTP: whom it trusts, what it refuses, and what it does not read from the environment."""

import asyncio
import ssl

import httpx
import pytest
import trustme

from atlas.errors import SettingsError
from atlas.outgoing.http import ResponseTooLong, http_client, read_body, tls_context


@pytest.fixture
async def address(tmp_path, monkeypatch):
    """A server over TLS whose authority stands in SSL_CERT_FILE, and that answers with what the path says."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        if path == "/moved":
            writer.write(b"HTTP/1.1 302 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        else:
            body = b"x" * int(path[1:])
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_an_authority_of_the_operators_own_is_trusted(address):
    async with http_client() as client:
        assert (await client.get(f"{address}/5")).text == "xxxxx"


async def test_a_stranger_is_not_trusted(address, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    async with http_client() as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(f"{address}/5")


async def test_proxies_of_the_environment_are_not_used(address, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with http_client() as client:
        assert (await client.get(f"{address}/5")).status_code == 200


async def test_redirects_are_not_followed(address):
    async with http_client() as client:
        assert (await client.get(f"{address}/moved")).status_code == 302


async def test_a_response_is_read_up_to_a_limit(address):
    async with http_client() as client, client.stream("GET", f"{address}/100") as response:
        assert await read_body(response, limit=100) == b"x" * 100
    async with http_client() as client, client.stream("GET", f"{address}/101") as response:
        with pytest.raises(ResponseTooLong):
            await read_body(response, limit=100)


def test_a_file_of_authorities_that_cannot_be_read_is_named(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(SettingsError, match="SSL_CERT_FILE"):
        tls_context()
