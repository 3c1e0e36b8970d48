"""The web pages over HTTP: deep links, caching, compression, and what stays a problem for programs."""

import gzip
import re

import orjson
import pytest

from atlas.api.http import page_files

BASE = "http://atlas.test"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def visitor(world):
    """A browser without a session."""
    client = world.client()
    client.headers = {"Host": "atlas.test", "Accept-Encoding": "gzip"}
    return client


async def test_every_address_of_the_pages_is_the_first_page_for_a_browser(visitor):
    first = await visitor.get(f"{BASE}/", headers=HTML)
    assert (first.status_code, first.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path in ("/jobs", "/jobs/0192f0c1-2b3c-7d4e-8f90-123456789abc?tab=output", "/settings", "/not/known"):
        deep = await visitor.get(f"{BASE}{path}", headers=HTML)
        assert (deep.status_code, deep.content) == (200, first.content), path


async def test_what_is_no_page_stays_a_problem(visitor):
    for path, headers in [
        ("/api/v1/unknown", HTML),
        ("/api/v2", HTML),
        ("/assets/unknown.js", HTML),
        ("/hooks/unknown", HTML),
        ("/jobs", {"Accept": "application/json"}),
        ("/jobs", {"Accept": "*/*"}),
        ("/unknown", {}),
    ]:
        answer = await visitor.get(f"{BASE}{path}", headers=headers)
        assert answer.status_code in (404, 405), path
        assert answer.headers["content-type"] == "application/problem+json", path
    assert (await visitor.post(f"{BASE}/jobs", headers=HTML)).status_code == 404


async def test_the_pages_load_nothing_from_elsewhere_and_nothing_inline(visitor):
    first = await visitor.get(f"{BASE}/", headers=HTML)
    policy = first.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert not re.search(r"<script>|<style|style=|https?://", first.text)
    for name in re.findall(r'(?:src|href)="/assets/([^"]+)"', first.text):
        assert (await visitor.get(f"{BASE}/assets/{name}")).status_code == 200


async def test_a_hashed_file_is_kept_for_ever_and_the_page_is_asked_for_again(visitor):
    first = await visitor.get(f"{BASE}/", headers=HTML)
    assert first.headers["cache-control"] == "no-cache"
    again = await visitor.get(f"{BASE}/", headers={**HTML, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    changed = await visitor.get(f"{BASE}/", headers={**HTML, "If-None-Match": 'W/"another"'})
    assert changed.status_code == 200

    [script] = re.findall(r'src="/assets/([^"]+\.js)"', first.text)
    answer = await visitor.get(f"{BASE}/assets/{script}")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await visitor.get(f"{BASE}/assets/docs.js")).headers["cache-control"] == "no-cache"


async def test_files_come_compressed_as_the_browser_accepts(visitor):
    first = await visitor.get(f"{BASE}/", headers=HTML)
    [script] = re.findall(r'src="/assets/([^"]+\.js)"', first.text)
    plain = await visitor.get(f"{BASE}/assets/{script}", headers={"Accept-Encoding": "br;q=0, identity"})
    assert "content-encoding" not in plain.headers
    packed = await visitor.get(f"{BASE}/assets/{script}", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    best = await visitor.send(
        visitor.build_request("HEAD", f"{BASE}/assets/{script}", headers={"Accept-Encoding": "gzip, br"})
    )
    assert best.headers["content-encoding"] == "br"


async def test_the_first_load_stays_small(visitor):
    """Under 250 KB of gzipped script: the first page's own and what it names to be loaded with it."""
    first = await visitor.get(f"{BASE}/", headers=HTML)
    names = set(re.findall(r'"/assets/([^"]+\.js)"', first.text))
    loaded = sum(len(page_files._files()[name].compressed["gzip"]) for name in names)
    assert 0 < loaded < 250_000


async def test_a_large_json_answer_is_compressed_and_a_small_one_is_not(world, operator, spec):
    world.app.openapi_schema = spec
    request = operator.build_request("GET", f"{BASE}/openapi.json", headers={"Accept-Encoding": "gzip"})
    large = await operator.send(request, stream=True)
    raw = b"".join([part async for part in large.aiter_raw()])
    assert large.headers["content-encoding"] == "gzip"
    assert int(large.headers["content-length"]) == len(raw)
    assert orjson.loads(gzip.decompress(raw))["openapi"]

    for path, accepted in [("/session", "gzip"), ("/openapi.json", "identity"), ("/openapi.json", "gzip;q=0")]:
        url = path if path == "/session" else f"{BASE}{path}"
        answer = await operator.get(url, headers={"Accept-Encoding": accepted})
        assert "content-encoding" not in answer.headers, (path, accepted)
