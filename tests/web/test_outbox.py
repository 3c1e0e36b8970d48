"""The outbox in a browser: a hostile mail is shown, runs no script and loads nothing."""

from playwright.sync_api import expect

from atlas.engine.outbox_files import outbox_folder
from atlas.ids import new_id
from tests.api.test_outbox import HOSTILE, mail
from tests.web.conftest import Visit, serious_violations

MORE = """<p style="background:url(https://evil.example/css.png)">Dear customer</p>
<table background="https://evil.example/t.png"><tr><td>cell</td></tr></table>
<a href="https://evil.example/click" target="_top" ping="https://evil.example/ping">your order</a>
<img srcset="https://evil.example/s.png 1x"><video poster="https://evil.example/p.png"></video>"""


def test_a_hostile_mail_runs_no_script_and_loads_nothing(site, visit: Visit):
    folder = outbox_folder(site.home) / "acme"
    folder.mkdir(parents=True, exist_ok=True)
    id = new_id()
    subject = "<img src=x onerror=alert(1)>Your order"
    (folder / f"{id}.eml").write_text(mail(HOSTILE + MORE, subject), newline="")
    page = visit("/outbox", role="tenant_admin", tenant="acme", axe=True)
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.get_by_role("row").filter(has_text="Your order").click()

    inner = page.frame_locator("iframe[title='HTML of the mail']")
    expect(inner.get_by_text("Dear customer")).to_be_visible()
    expect(inner.get_by_alt_text("logo")).to_be_visible()
    inner.get_by_text("your order").click()
    expect(inner.get_by_text("Dear customer")).to_be_visible()  # it led nowhere
    page.get_by_role("tab", name="Text").click()
    expect(page.get_by_text("Plain words")).to_be_visible()
    page.get_by_role("tab", name="Headers").click()
    expect(page.get_by_role("region", name="headers of the mail")).to_contain_text(subject)

    assert dialogs == []
    assert [url for url in asked if not url.startswith((site.address, "data:"))] == []
    assert page.evaluate("document.title").startswith("Outbox")
    assert serious_violations(page) == []
