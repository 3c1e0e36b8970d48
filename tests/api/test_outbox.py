"""The outbox over HTTP: a tenant's mails in pages, and the HTML of one as a document in which nothing runs or loads."""

import base64
import re

import pytest

from atlas.engine.outbox_files import outbox_folder
from atlas.ids import new_id

PICTURE = "data:image/png;base64,iVBORw0KGgo="
HOSTILE = f"""
<script>alert(1)</script><p onclick="alert(2)" style="color:red">Hello <b>Ann</b></p>
<img src=x onerror="alert(3)"><img src="https://evil.example/pixel.png"><img src="{PICTURE}" alt="logo">
<a href="javascript:alert(4)">one</a><a href="data:text/html,<script>alert(5)</script>">two</a>
<a href="https://shop.example/order">three</a>
<iframe src="https://evil.example"></iframe><object data="x"></object><embed src="x"><form action="https://evil.example">
<input name="a"></form><link rel="stylesheet" href="https://evil.example/a.css"><meta http-equiv="refresh" content="0;url=x">
<style>body {{ background: url(https://evil.example/b) }}</style><svg><script>alert(6)</script></svg>
<base href="https://evil.example/"><math><mtext></mtext></math><video src="https://evil.example/v"></video>
"""


def mail(html, subject="Hello"):
    encoded = base64.b64encode(html.encode()).decode()
    return (
        f"From: shop@example.com\r\nTo: ann@example.com\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/mixed; boundary="m"\r\n\r\n--m\r\nContent-Type: multipart/alternative; boundary="a"\r\n\r\n'
        "--a\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nPlain words\r\n"
        f"--a\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n--a--\r\n"
        '--m\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="bill.pdf"\r\n\r\n%PDF\r\n--m--\r\n'
    )


@pytest.fixture
def post(settings):
    """Put a file into a tenant's outbox; returns its job's id."""

    def write(tenant, content):
        folder = outbox_folder(settings.home) / tenant
        folder.mkdir(parents=True, exist_ok=True)
        id = new_id()
        (folder / f"{id}.eml").write_text(content, newline="")
        return id

    return write


async def test_a_tenant_sees_its_own_mails_newest_first(admin, operator, post):
    ids = [post("acme", mail("<p>x</p>", f"Mail {n}")) for n in range(3)]
    foreign = post("other", mail("<p>of other</p>"))
    broken = post("acme", "From: \xff")
    listed = (await admin.get("/outbox")).json()["items"]
    first = (await admin.get("/outbox", params={"limit": 2})).json()
    rest = (await admin.get("/outbox", params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert [one["job_id"] for one in listed] == [str(id) for id in (broken, *reversed(ids))]
    assert first["items"] + rest["items"] == listed
    assert (listed[-1]["subject"], listed[-1]["to"], listed[-1]["tenant"]) == ("Mail 0", "ann@example.com", "acme")
    assert len((await operator.get("/outbox")).json()["items"]) == 5
    assert len((await operator.get("/outbox", params={"tenant": "other"})).json()["items"]) == 1
    for part in ("", "/html", "/source"):
        assert (await admin.get(f"/outbox/{foreign}{part}")).status_code == 404
        assert (await operator.get(f"/outbox/{foreign}{part}")).status_code == 200


async def test_the_route_says_whether_mails_are_sent(world, admin, operator):
    enqueuer = world.client("acme", "enqueuer")
    assert (await admin.get("/outbox/route")).json() == {"providers": ["outbox"], "is_local": True}
    own = {"limits": {"email": {"providers": ["smtp", "outbox"]}}}
    assert (await operator.patch("/tenants/acme", json=own)).status_code == 200
    assert (await enqueuer.get("/outbox/route")).json() == {"providers": ["smtp", "outbox"], "is_local": False}
    assert (await operator.get("/outbox/route", params={"tenant": "other"})).json()["is_local"] is True


async def test_one_mail_has_its_headers_text_files_and_source(admin, post):
    content = mail("<p>x</p>")
    id = post("acme", content)
    shown = (await admin.get(f"/outbox/{id}")).json()
    source = await admin.get(f"/outbox/{id}/source")

    assert {"name": "Subject", "value": "Hello"} in shown["headers"]
    assert (shown["text"].strip(), shown["has_html"]) == ("Plain words", True)
    assert shown["attachments"] == [{"name": "bill.pdf", "content_type": "application/pdf", "size": 4}]
    assert source.text == content
    assert source.headers["content-disposition"] == f'attachment; filename="{id}.eml"'


async def test_the_html_of_a_mail_runs_nothing_and_loads_nothing(admin, post):
    answer = await admin.get(f"/outbox/{post('acme', mail(HOSTILE))}/html")
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))

    assert answer.headers.get_list("content-security-policy") == [answer.headers["content-security-policy"]]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert policy["default-src"] == "'none'"
    assert policy["sandbox"] == ""
    assert policy["frame-ancestors"] == "'self'"
    assert "script-src" not in policy
    assert '<p style="color:red">Hello <b>Ann</b></p>' in answer.text
    assert f'src="{PICTURE}"' in answer.text
    assert "three" in answer.text
    assert not re.search(
        r"script|alert|evil|iframe|object|embed|form|onerror|javascript:|@import|<base|<meta http|svg|href", answer.text
    )


async def test_only_the_html_of_a_mail_may_be_framed(admin, post):
    id = post("acme", "From: a@example.com\r\nSubject: s\r\n\r\nPlain")
    for path in ("/outbox", f"/outbox/{id}", f"/outbox/{id}/source", f"/outbox/{id}/html"):
        answer = await admin.get(path)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.status_code == 404  # plain text only
