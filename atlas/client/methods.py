"""Methods that both clients have, each defined once: by a coroutine, or by the signature of an operation.

On AtlasClient a method returns a coroutine, or something for `async for`. SyncAtlasClient begins the same and returns
the result: its transport blocks, so that the coroutine ends without ever waiting.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast, overload

from atlas.bounds import MAX_PAGE_SIZE
from atlas.client.errors import ApiNotFound
from atlas.client.request import ApiRequest
from atlas.client.route import ApiCaller, Route, read
from atlas.models.base import Page

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


class AsyncCaller(ApiCaller):
    """A client whose methods are awaited."""


class BlockingCaller(ApiCaller):
    """A client whose methods block."""


class Method(Generic[P, A, B]):
    """What a client offers under one name: `begin` for those who await, and then `block` for those who do not."""

    def __init__(
        self,
        begin: Callable[Concatenate[Any, P], A],
        block: Callable[[A], B],
        definition: Callable[..., Any],
        route: Route | None = None,
    ) -> None:
        self.begin = begin
        self.block = block
        # The operation that it calls; None for a method that calls several.
        self.route = route
        update_wrapper(cast(Any, self), definition)

    @overload
    def __get__(self, client: AsyncCaller, owner: object = None) -> Callable[P, A]: ...

    @overload
    def __get__(self, client: BlockingCaller, owner: object = None) -> Callable[P, B]: ...

    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...

    def __get__(self, client: ApiCaller | None, owner: object = None) -> Any:
        if client is None:
            return self
        unbound: Callable[..., Any] = self.begin
        begin = partial(unbound, client)
        return begin if isinstance(client, AsyncCaller) else lambda *args, **named: self.block(begin(*args, **named))


class AsyncPages(Generic[T]):
    """A list of the API. Iterating fetches it page by page; it is stable while new items arrive."""

    def __init__(self, client: ApiCaller, request: ApiRequest, kind: Any) -> None:
        self._client, self._request, self._kind = client, request, kind

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self, *, limit: int = MAX_PAGE_SIZE, cursor: str | None = None) -> AsyncGenerator[Page[T]]:
        """Page after page, from a `next_cursor` on."""
        while True:
            page = await self.page(limit=limit, cursor=cursor)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    async def page(self, *, limit: int = 50, cursor: str | None = None) -> Page[T]:
        """One page; its `next_cursor` leads to the next."""
        params = {**(self._request.params or {}), "limit": limit, **({} if cursor is None else {"cursor": cursor})}
        response = await self._client._transport.call(replace(self._request, params=params))
        page: Any = Page
        return cast(Page[T], read(page[self._kind], response, self._client._transport.url))


class Pages(Generic[T]):
    """A list of the API. Iterating fetches it page by page; it is stable while new items arrive."""

    def __init__(self, listing: AsyncPages[T]) -> None:
        self._listing = listing

    def __iter__(self) -> Iterator[T]:
        return drain(aiter(self._listing))

    def pages(self, *, limit: int = MAX_PAGE_SIZE, cursor: str | None = None) -> Iterator[Page[T]]:
        """Page after page, from a `next_cursor` on."""
        return drain(self._listing.pages(limit=limit, cursor=cursor))

    def page(self, *, limit: int = 50, cursor: str | None = None) -> Page[T]:
        """One page; its `next_cursor` leads to the next."""
        return run_now(self._listing.page(limit=limit, cursor=cursor))


Awaited: TypeAlias = Method[P, Coroutine[Any, Any, T], T]
Listing: TypeAlias = Method[P, AsyncPages[T], Pages[T]]
Stream: TypeAlias = Method[P, AsyncIterator[bytes], Iterator[bytes]]


def method(definition: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Awaited[P, T]:
    """A method that is written as a coroutine. It calls operations by `begin`, which never blocks."""
    return Method(definition, run_now, definition)


def operation(verb: str, path: str, **options: bool) -> Callable[[Callable[Concatenate[Any, P], T]], Awaited[P, T]]:
    """A method that calls one operation of the API. It is defined by its signature and has no code."""

    def define(definition: Callable[Concatenate[Any, P], T]) -> Awaited[P, T]:
        route = Route(verb, path, definition, **options)

        async def begin(client: ApiCaller, /, *args: P.args, **named: P.kwargs) -> T:
            try:
                response = await client._transport.call(route.request(client, *args, **named))
            except ApiNotFound as error:
                # What an earlier try has removed is not there any more.
                if verb == "DELETE" and route.result is None and error.in_doubt:
                    return cast(T, None)
                raise
            return cast(T, read(route.result, response, client._transport.url))

        return Method(begin, run_now, definition, route)

    return define


def listing(path: str, **options: bool) -> Callable[[Callable[Concatenate[Any, P], T]], Listing[P, T]]:
    """A method that returns the items of a list. Its definition names the kind of one item."""

    def define(definition: Callable[Concatenate[Any, P], T]) -> Listing[P, T]:
        route = Route("GET", path, definition, **options)

        def begin(client: ApiCaller, /, *args: P.args, **named: P.kwargs) -> AsyncPages[T]:
            return AsyncPages(client, route.request(client, *args, **named), route.result)

        return Method(begin, Pages, definition, route)

    return define


def stream(path: str) -> Callable[[Callable[Concatenate[Any, P], bytes]], Stream[P]]:
    """A method that returns the bytes of a response as they arrive."""

    def define(definition: Callable[Concatenate[Any, P], bytes]) -> Stream[P]:
        route = Route("GET", path, definition)

        def begin(client: ApiCaller, /, *args: P.args, **named: P.kwargs) -> AsyncIterator[bytes]:
            return client._transport.pieces(replace(route.request(client, *args, **named), streamed=True))

        return Method(begin, drain, definition, route)

    return define


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    coroutine.close()
    raise RuntimeError("A method of the blocking client waited for an event loop.")


def drain(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an iterator that never waits."""
    try:
        while True:
            try:
                yield run_now(_next(items))
            except StopAsyncIteration:
                return
    finally:
        if isinstance(items, AsyncGenerator):
            run_now(items.aclose())


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
