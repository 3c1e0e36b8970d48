"""The input of an HTTP_CALL job. What could not be sent is refused here, field by field."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from atlas.engine.secrets.fields import MARK
from atlas.engine.secrets.redact import MIN_SECRET_LENGTH
from atlas.engine.webhooks.address import MAX_ADDRESS_LENGTH, check_address

MAX_VALUE_LENGTH = 8000
MAX_HEADERS = 50
MAX_TIMEOUT = 300

# Written by Atlas, or about the connection.
RESERVED = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
        *("expect", "idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature"),
    }
)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PRINTABLE = re.compile(r"[\x20-\x7e\t]*")
_NAME = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"

SecretName = Annotated[str, Field(pattern=_NAME)]
SecretValue = Annotated[str, Field(min_length=MIN_SECRET_LENGTH, max_length=4000, json_schema_extra={MARK: True})]


class HttpCall(BaseModel):
    """A request: url, method, headers, body, secrets, sign, timeout_seconds, repeatable; or a webhook and its body."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # First, so that the fields that refer to them can be checked.
    secrets: dict[SecretName, SecretValue] = Field(default_factory=dict, max_length=20)
    # A subscription of the tenant: its address and its secret are used.
    webhook: UUID | None = None
    url: str | None = Field(default=None, min_length=1, max_length=MAX_ADDRESS_LENGTH, validate_default=True)
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = Field(default_factory=dict, max_length=MAX_HEADERS)
    body: Any = None
    sign: str | None = None
    timeout_seconds: float = Field(default=30, ge=1, le=MAX_TIMEOUT)
    # The server recognizes a repetition by its Idempotency-Key, so a call without a response may be made again.
    repeatable: bool = True

    @field_validator("url")
    @classmethod
    def _is_a_web_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            if info.data.get("webhook") is None:
                raise ValueError("is required")
            return None
        if info.data.get("webhook") is not None:
            raise ValueError("goes not with webhook, which has one")
        check_address(_known(value, info))
        return value

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, text in value.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name[:100]!r} is not the name of a header")
            if name.lower() in RESERVED or name.lower().startswith("proxy-"):
                raise ValueError(f"{name} is written by Atlas and cannot be set")
            sent = _known(text, info)
            if not _PRINTABLE.fullmatch(sent) or len(sent) > MAX_VALUE_LENGTH:
                raise ValueError(f"{name} holds a control character, a letter beyond ASCII or too much")
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("a header is named twice")
        return value

    @field_validator("sign")
    @classmethod
    def _names_a_secret(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value not in info.data.get("secrets", {}):
            raise ValueError("is not a name in `secrets`")
        return value

    @field_validator("repeatable")
    @classmethod
    def _is_not_for_webhooks(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("webhook") is not None:
            raise ValueError("goes not with webhook, whose deliveries are repeated")
        return value


def fill_in(text: str, secrets: Mapping[str, str]) -> str:
    """The text with the value of a secret in place of every `${name}`; KeyError for a name that there is not."""
    return _REFERENCE.sub(lambda match: secrets[match[1]], text)


def _known(text: str, info: ValidationInfo) -> str:
    try:
        return fill_in(text, info.data.get("secrets", {}))
    except KeyError as unknown:
        raise ValueError(f"names ${{{unknown.args[0][:64]}}}, which is not in `secrets`") from None
