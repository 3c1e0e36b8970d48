"""The part of a program's output that is stored with the attempt, as text without secrets."""

from atlas.engine.secrets.redact import Redactor
from atlas.programs.runner import Stream
from atlas.programs.terminal_text import plain


def stored_text_of(stream: Stream, redactor: Redactor | None) -> str:
    """The kept part of a stream, as text. Where bytes were left out, their number is given."""
    if stream.left_out <= 0:
        whole = plain((stream.head + stream.tail).decode("utf-8", "replace"))
        # A killed program may have written only a part of a secret.
        return whole if redactor is None else redactor.cut(whole, at_end=True)
    head = plain(stream.head.decode("utf-8", "replace").rstrip("\ufffd"))
    tail = plain(stream.tail.decode("utf-8", "replace").lstrip("\ufffd"))
    if redactor is not None:
        head, tail = redactor.cut(head, at_end=True), redactor.cut(tail, at_start=True, at_end=True)
    return f"{head}\n[{stream.left_out} bytes left out]\n{tail}"
