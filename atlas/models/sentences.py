"""Sentences that contain times: as text for programs, in parts for pages, which show times in the reader's zone."""

import re
from datetime import datetime

from pydantic import Field

from atlas.models.base import ApiModel

# Two separators of ASCII that no message contains on purpose; a sentence is split before anyone reads it.
_TIME = re.compile("\x1e(\\d[0-9T:.+-]{18,32})\x1f")


class SentencePart(ApiModel):
    """A part of a sentence: text, or a time."""

    text: str = Field(description="The text; of a time, its UTC form.")
    at: datetime | None = Field(description="The time that the part stands for; null for text.")


def time_in(time: datetime) -> str:
    """A time inside a sentence that `parts_of` splits."""
    return f"\x1e{time.isoformat()}\x1f"


def utc(time: datetime) -> str:
    """A time as text."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def parts_of(sentence: str) -> list[SentencePart]:
    """The texts and times of a sentence, in order."""
    pieces = _TIME.split(sentence)
    parts = []
    for index, piece in enumerate(pieces):
        at = _read(piece) if index % 2 else None
        if piece:
            parts.append(SentencePart(text=piece if at is None else utc(at), at=at))
    return parts


def text_of(parts: list[SentencePart]) -> str:
    """The whole sentence, with its times in UTC."""
    return "".join(part.text for part in parts)


def _read(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
