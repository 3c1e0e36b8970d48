"""How the arguments of a method become a request, and a response becomes a result."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, get_args
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from atlas.bounds import MAX_IDEMPOTENCY_KEY_LENGTH
from atlas.client.errors import not_atlas
from atlas.client.request import ApiRequest, ApiResponse, ApiTransport, new_key
from atlas.errors import FieldError, InvalidInput


class HasId(Protocol):
    """What has an id, such as the job that `enqueue` returned."""

    @property
    def id(self) -> UUID: ...


Id: TypeAlias = UUID | str | HasId
# Waits for a number of seconds, or until something may have happened.
Pause: TypeAlias = Callable[[float], Awaitable[None]]

# Parameters that are sent as headers, and the one that is the whole body.
_APART = ("idempotency_key", "if_match", "body")


class ApiCaller(ABC):
    """A client: how it reaches the API, and which tenant its calls are about."""

    def __init__(self, transport: ApiTransport, tenant: str | None) -> None:
        self._transport = transport
        self._tenant = tenant

    @abstractmethod
    def _watch(
        self, id: UUID, timeout: float | None
    ) -> AbstractAsyncContextManager[Callable[[float], Awaitable[None]]]:
        """Pauses for a caller who waits for something; they end early when something may have happened to it."""


class Route:
    """The address of an operation, and the signature of the method that calls it.

    A parameter that the path names is sent there, `body` is the whole body, `idempotency_key` and `if_match` are
    headers. All others are the query of a GET or DELETE, and fields of the body otherwise. What the caller does not
    give is not sent.
    """

    def __init__(
        self, method: str, path: str, definition: Callable[..., Any], *, by_tenant: bool = True, keyed: bool = True
    ) -> None:
        self.method, self.path = method, path
        # Whether a caller without a tenant may name the one that is meant.
        self.by_tenant = by_tenant
        # Whether the API keeps the response under an idempotency key.
        self.keyed = keyed and method != "GET"
        self.signature = _expanded(inspect.signature(definition))
        self.result: Any = self.signature.return_annotation
        self.in_path = [name for name in self.signature.parameters if f"{{{name}}}" in path]

    @property
    def sent(self) -> list[str]:
        """The parameters that are sent in the query, or as fields of the body."""
        _, *names = self.signature.parameters
        return [name for name in names if name not in self.in_path and name not in _APART]

    def request(self, client: ApiCaller, *args: Any, **named: Any) -> ApiRequest:
        """The request of a call with these arguments."""
        values = {**self.signature.bind(client, *args, **named).arguments}
        segments = {name: self._segment(name, values[name]) for name in self.in_path}
        sent = {name: values[name] for name in self.sent if name in values}
        in_query = self.method in ("GET", "DELETE")
        body = values.get("body", None if in_query else sent or None)
        params = {"tenant": client._tenant if self.by_tenant else None, **(sent if in_query else {})}
        return ApiRequest(
            self.method,
            self.path.format(**segments),
            {name: _text(value) for name, value in params.items() if value is not None},
            None if body is None else _json(body),
            _key(values.get("idempotency_key")) if self.keyed else None,
            if_match=values.get("if_match"),
        )

    def _segment(self, name: str, value: Any) -> str:
        if self.signature.parameters[name].annotation == Id:
            value = read_id(name, value)
        return quote(str(value), safe="")


def _expanded(signature: inspect.Signature) -> inspect.Signature:
    """A signature with the keys of `**filters: Unpack[Filters]`, which several methods share, as parameters."""
    *others, last = signature.parameters.values()
    if last.kind is not inspect.Parameter.VAR_KEYWORD:
        return signature
    [filters] = get_args(last.annotation)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=annotation)
        for name, annotation in filters.__annotations__.items()
    ]
    return signature.replace(parameters=[*others, *shared])


def read_id(name: str, value: Id) -> UUID:
    """An id, or that of what has one; `name` is what the caller calls it."""
    if not isinstance(value, str):
        value = value if isinstance(value, UUID) else value.id
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except ValueError:
        raise InvalidInput("The request", [FieldError(name, "is not an id")]) from None


def read(kind: Any, response: ApiResponse, url: str) -> Any:
    """The content of a response, as this kind."""
    if kind is None or kind is str:
        return None if kind is None else response.text
    try:
        return _adapter(kind).validate_json(response.content)
    except ValidationError as error:
        raise not_atlas(url) from error


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _text(value: Any) -> Any:
    """A value as httpx sends it in a query."""
    if isinstance(value, list | tuple):
        return [_text(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, BaseModel):
        value = getattr(value, "id", value)
    return str(value) if isinstance(value, UUID) else value


def _json(body: Any) -> bytes:
    try:
        # A model's field that is None was not given. An argument that is None was, and removes something.
        return to_json(body, exclude_none=not isinstance(body, dict))
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise InvalidInput("The request", [FieldError("input", "cannot be written as JSON")]) from error


def _key(key: str | None) -> str:
    """The caller's idempotency key, if a header can hold it, or a new one."""
    if key is None:
        return new_key()
    if not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH or not key.isascii() or not key.isprintable():
        reason = f"must have 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable ASCII characters"
        raise InvalidInput("The request", [FieldError("idempotency_key", reason)])
    return key
