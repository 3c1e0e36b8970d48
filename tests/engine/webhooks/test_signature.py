"""The signature is that of Standard Webhooks, and the page's example checks it."""

import re
import time

import pytest

from atlas.engine.webhooks.signature import is_signed, new_secret, sign
from tests.support import ROOT

# The example of the specification.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_example_of_the_specification_has_the_same_signature():
    headers = sign([SECRET], *MESSAGE)

    assert headers["webhook-signature"] == SIGNATURE
    assert is_signed([SECRET], headers, MESSAGE[2])


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_message_without_one_of_its_headers_is_not_signed(header):
    headers = {name: value for name, value in sign([SECRET], *MESSAGE).items() if name != header}

    assert not is_signed([SECRET], headers, MESSAGE[2])


def test_the_example_of_the_page_checks_a_message():
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "webhooks.md").read_text(), re.DOTALL)
    [example] = [text for text in examples if "def is_genuine" in text]
    names: dict[str, object] = {}
    exec(example, names)
    is_genuine = names["is_genuine"]
    assert callable(is_genuine)
    secret = new_secret()
    headers = sign([secret], "id", int(time.time()), b"{}")

    assert is_genuine(secret, headers, b"{}")
    assert not is_genuine(secret, headers, b"{ }")
    assert not is_genuine(new_secret(), headers, b"{}")
    assert not is_genuine(secret, sign([secret], "id", int(time.time()) - 400, b"{}"), b"{}")
