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
    with page.expect_response("**/html*") as shown:
        page.get_by_role("row").filter(has_text="Your order").click()
    assert "Dear customer" in shown.value.text()
    # The browser itself does not look into a frame without scripts: what is in it is clicked, wherever it is.
    preview = page.get_by_title("HTML of the mail")
    expect(preview).to_have_attribute("sandbox", "")
    box = preview.bounding_box()
    assert box is not None
    for below in range(20, 400, 60):
        page.mouse.click(box["x"] + 60, box["y"] + below)
    assert [frame.url for frame in page.frames[1:]] == [shown.value.url]  # shown, and led nowhere
    page.get_by_role("tab", name="Text").click()
    expect(page.get_by_text("Plain words")).to_be_visible()
    page.get_by_role("tab", name="Headers").click()
    expect(page.get_by_role("region", name="headers of the mail")).to_contain_text(subject)

    assert dialogs == []
    assert [url for url in asked if not url.startswith((site.address, "data:"))] == []
    assert page.evaluate("document.title").startswith("Outbox")
    assert serious_violations(page) == []
