"""Entity tags: each names one state of something that people edit.

A tag is a hash of what an edit can change. What Atlas itself writes, when a trigger fires, say, changes no tag.
"""

import hashlib
from typing import Any

import orjson


def etag_of(*state: Any) -> str:
    """The tag of this state, of plain JSON, ids and timestamps."""
    text = orjson.dumps(state, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'
