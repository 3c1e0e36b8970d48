"""The people of a mail, kept out of the audit: what stands for them there, and what is kept apart.

The same as `atlas.audit.personal_data.conceal` makes (a test compares them), written out: every mail needs it, and it
took a tenth of a mail's time.
"""

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from atlas.audit.personal_data import SALT_BYTES


def concealed(
    entity_id: str, recipients: Iterable[str], subject: str
) -> tuple[dict[str, Any], list[dict[str, str | None]]]:
    """The meta of an event with commitments in place of recipients and subject, and the rows of `audit_private`."""
    rows: list[dict[str, str | None]] = []
    shapes = [_commit(rows, "recipients", one, entity_id) for one in recipients]
    return {"recipients": shapes, "subject": _commit(rows, "subject", subject, entity_id)}, rows


def _commit(rows: list[dict[str, str | None]], field: str, value: str, entity_id: str) -> dict[str, str]:
    salt = os.urandom(SALT_BYTES)
    commitment = hashlib.sha256(salt + value.encode()).hexdigest()
    rows.append({"commitment": commitment, "field": field, "salt": salt.hex(), "value": value, "entity_id": entity_id})
    return {"commitment": commitment}
