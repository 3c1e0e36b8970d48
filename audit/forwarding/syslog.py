"""Messages of RFC 5424, framed by octet counts as RFC 5425 asks for over TLS."""

import re
import socket
from functools import cache

from atlas.audit.forwarding.sealed_rows import SealedRow

# The facility "log audit".
FACILITY = 13
SEVERITY = {"info": 6, "warn": 4, "error": 3}
MAX_SEQUENCE = 2**31 - 1
_NOT_PRINTABLE = re.compile(r"[^!-~]")


def syslog_frame(row: SealedRow, message: bytes) -> bytes:
    """One message with its length in front. The row's number is its `sequenceId`, which begins anew after 2³¹ - 1."""
    priority = FACILITY * 8 + SEVERITY.get(str(row.event.get("level")), SEVERITY["info"])
    kind = _NOT_PRINTABLE.sub("_", str(row.event.get("action", "")))[:32] or "-"
    sequence = (row.number - 1) % MAX_SEQUENCE + 1
    head = f'<{priority}>1 {row.time} {_host()} atlas - {kind} [meta sequenceId="{sequence}"] '.encode()
    return b"%d %b%b" % (len(head) + len(message), head, message)


@cache
def _host() -> str:
    return _NOT_PRINTABLE.sub("_", socket.gethostname())[:255] or "-"
