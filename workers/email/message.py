"""The input of an EMAIL_SEND job. What a provider would refuse is refused here, field by field."""

import base64
import binascii
import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from atlas.db.pg_json import is_larger
from atlas.workers.email.addresses import MAX_RECIPIENTS, Address, check_header, parse_addresses, parse_some_addresses

MIB = 1024 * 1024
MAX_MAIL = 3 * MIB
MAX_SUBJECT_LENGTH = 998
# With its parameters it is one line of the mail, and lines have at most 998 characters.
MAX_CONTENT_TYPE_LENGTH = 255

_CONTENT_TYPE = r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:; ?[A-Za-z0-9-]+=[A-Za-z0-9._-]+)*"
_IS_CONTENT_TYPE = re.compile(_CONTENT_TYPE)
# The same rules for callers that know only the published schema, as far as a schema can express them.
_HEADER = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"}
_ADDRESS = r"[^@<>\s,;\u0000-\u001f\u007f-\u009f\u2028\u2029]+@[^@<>\s,;\u0000-\u001f\u007f-\u009f\u2028\u2029]+"
_ONE = {
    "anyOf": [
        {
            "type": "string",
            "pattern": rf"^(?: *{_ADDRESS} *|[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*<{_ADDRESS}> *)$",
            "examples": ["ada@example.com", "Ada <ada@example.com>"],
        },
        {
            "type": "object",
            "properties": {
                "address": {"type": "string", "pattern": f"^{_ADDRESS}$"},
                "name": {"type": ["string", "null"], **_HEADER},
            },
            "required": ["address"],
            "additionalProperties": False,
        },
    ]
}
_LIST = {"type": "array", "items": _ONE, "maxItems": MAX_RECIPIENTS}
_SOME = {"anyOf": [*_ONE["anyOf"], {**_LIST, "minItems": 1}]}
_ANY = {"anyOf": [*_ONE["anyOf"], _LIST, {"type": "null"}]}

Addresses = Annotated[tuple[Address, ...], PlainValidator(parse_addresses), WithJsonSchema(_ANY)]
SomeAddresses = Annotated[tuple[Address, ...], PlainValidator(parse_some_addresses), WithJsonSchema(_SOME)]
HeaderText = Annotated[str, AfterValidator(check_header), Field(json_schema_extra=_HEADER)]


def _or_null(schema: dict[str, Any]) -> None:
    """Accept null for none."""
    schema["anyOf"] = [{name: schema.pop(name) for name in ("type", "items")}, {"type": "null"}]


class Attachment(BaseModel):
    """A file that is sent with the mail."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: HeaderText = Field(min_length=1, max_length=255)
    content_type: str = Field(
        alias="contentType", max_length=MAX_CONTENT_TYPE_LENGTH, json_schema_extra={"pattern": f"^{_CONTENT_TYPE}$"}
    )
    base64: str = Field(max_length=MAX_MAIL)

    @field_validator("content_type")
    @classmethod
    def _is_a_type(cls, value: str) -> str:
        if not _IS_CONTENT_TYPE.fullmatch(value):
            raise ValueError("is not a content type such as application/pdf")
        if value.lower().startswith(("multipart/", "message/")):
            raise ValueError("must be the type of a file, not of a mail")
        return value

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
        return value


class EmailInput(BaseModel):
    """A mail to send: to, cc, bcc, subject, text or html or both, replyTo, fromAgent, attachments, traceId."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "anyOf": [
                {"required": [form], "properties": {form: {"type": "string", "minLength": 1}}}
                for form in ("text", "html")
            ]
        },
    )

    to: SomeAddresses
    cc: Addresses = ()
    bcc: Addresses = ()
    reply_to: Addresses = Field(default=(), alias="replyTo")
    subject: HeaderText = Field(min_length=1, max_length=MAX_SUBJECT_LENGTH)
    html: str | None = Field(default=None, max_length=MAX_MAIL)
    text: str | None = Field(default=None, max_length=MAX_MAIL, validate_default=True)
    from_agent: str | None = Field(default=None, alias="fromAgent", pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$")
    trace_id: HeaderText | None = Field(default=None, alias="traceId", max_length=200)
    attachments: tuple[Attachment, ...] = Field(default=(), json_schema_extra=_or_null)

    @field_validator("cc", "bcc")
    @classmethod
    def _are_not_too_many(cls, value: tuple[Address, ...], info: ValidationInfo) -> tuple[Address, ...]:
        if len(value) + sum(len(info.data.get(field, ())) for field in ("to", "cc")) > MAX_RECIPIENTS:
            raise ValueError(f"brings the recipients to more than {MAX_RECIPIENTS}")
        return value

    @field_validator("html")
    @classmethod
    def _is_not_too_large(cls, value: str | None) -> str | None:
        if value is not None and is_larger(value, MAX_MAIL):
            raise ValueError(f"is larger than {MAX_MAIL // MIB} MiB")
        return value

    @field_validator("text")
    @classmethod
    def _says_something(cls, value: str | None, info: ValidationInfo) -> str | None:
        # An html that is missing from the data was refused already.
        if not value and "html" in info.data and not info.data["html"]:
            raise ValueError("is required where there is no html")
        if value and is_larger(value + (info.data.get("html") or ""), MAX_MAIL):
            raise ValueError(f"brings the mail to more than {MAX_MAIL // MIB} MiB")
        return value

    @field_validator("attachments", mode="before")
    @classmethod
    def _none_is_none(cls, value: Any) -> Any:
        return () if value is None else value

    @field_validator("attachments")
    @classmethod
    def _are_not_too_large(cls, value: tuple[Attachment, ...], info: ValidationInfo) -> tuple[Attachment, ...]:
        texts = sum(len((info.data.get(field) or "").encode()) for field in ("text", "html"))
        if texts + sum(len(attachment.base64) for attachment in value) > MAX_MAIL:
            raise ValueError(f"brings the mail to more than {MAX_MAIL // MIB} MiB")
        return value

    @property
    def recipients(self) -> tuple[Address, ...]:
        """Everyone who gets the mail."""
        return self.to + self.cc + self.bcc
