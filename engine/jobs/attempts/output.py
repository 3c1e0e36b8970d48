"""What a handler returned, as the JSON of the column `output`."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from atlas.db.pg_json import TooLarge, byte_size, is_larger, refuse_far_larger, stored_json, without_nul
from atlas.engine.jobs.verdicts import PermanentError


def dump_output(value: Any, *, limit: int | None = None) -> str | None:
    """What a handler returned, as the JSON that `output` holds; None leaves it empty, as `{}`."""
    if value is None:
        return None
    try:
        # A dict is not a model; the isinstance check of models takes longer than the rest.
        if not isinstance(value, dict) and isinstance(value, BaseModel):
            return _model_json(value, limit)
        return stored_json(value, default=_plain, limit=limit)
    except TypeError as error:
        raise PermanentError(f"The handler's return value is not JSON: {error}.") from error
    except TooLarge as error:
        message = f"What the handler returned has {error} bytes as JSON; {limit:,} are allowed."
        remedy = "Store the data elsewhere and return where to find it, or raise max_output of the job type."
        raise PermanentError(message, remedy=remedy) from None


def _model_json(value: BaseModel, limit: int | None) -> str:
    if limit is not None:
        refuse_far_larger(value.__dict__, limit)
    try:
        text = value.model_dump_json()
    except PydanticSerializationError:
        return stored_json(value.model_dump(mode="json"), limit=limit)
    if limit is not None and is_larger(text, limit):
        raise TooLarge(byte_size(text))
    return without_nul(text)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
