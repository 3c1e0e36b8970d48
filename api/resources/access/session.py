"""Routes to sign in and out: a token is exchanged for a cookie that no script can read."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, StringConstraints

from atlas.actors import Actor
from atlas.api.access.authentication import Caller, address_of, cookie_name, own_origin
from atlas.api.access.browsers import browser_name
from atlas.api.access.roles import PEOPLE
from atlas.api.app_state import AppState
from atlas.api.models.common import Body
from atlas.api.problems import Forbidden, Unauthenticated
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.access.sessions import csrf_token, end_session, open_session
from atlas.engine.access.tokens import ROLES
from atlas.errors import FieldError, InvalidInput
from atlas.models.tenants import CurrentSession

router = APIRouter(prefix=f"{PREFIX}/session", route_class=GuardedRoute, tags=["session"])

Secret = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class SignIn(Body):
    """A token of a person, or the code of a link that `atlas up` or `atlas sign-in` has printed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"token": "atl_k3v9q2xa_…"}],
            "oneOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("token", "code")],
        }
    )

    token: Secret | None = None
    code: Secret | None = None


@router.post("", operation_id="sign_in", status_code=201, summary="Exchange a token or a link for a session's cookie")
@requires(no_key="a session's cookie is returned once and never stored")
async def sign_in(body: SignIn, request: Request, response: Response) -> CurrentSession:
    """It ends the session that the browser had before. A link can be used once, within 15 minutes."""
    api: AppState = request.app.state.api
    _refuse_other_sites(request)
    address = address_of(request)
    if (body.token is None) == (body.code is None):
        raise InvalidInput("The sign-in", [FieldError("token", "or a code must be given, not both")])
    caller = await _identify(api, body, address)
    request.scope["atlas.caller"] = caller
    await api.rate_limiter.check(caller.token.id, caller.tenant_id, is_agent=caller.is_agent)
    if caller.role not in PEOPLE:
        raise Forbidden(f"The role {caller.role} is for programs.", remedy="Sign in with a person's token.")
    commitment = await api.addresses.commitment(caller.tenant_id, address)
    actor = Actor("user", caller.subject, commitment, request.scope["atlas.request_id"], caller.token.prefix)
    async with api.db.connection(share=caller.share) as conn:
        before = request.cookies.get(cookie_name(request))
        session, clear = await open_session(
            conn,
            caller.token,
            actor=actor,
            browser=browser_name(request.headers.get("user-agent", "")),
            before=before,
            link=body.code,
        )
    if before is not None:
        api.callers.forget()
    secure = request.url.scheme == "https"
    lifetime = int((session.expires_at - session.created_at).total_seconds())
    response.set_cookie(
        cookie_name(request), clear, max_age=lifetime, path="/", secure=secure, httponly=True, samesite="lax"
    )
    return await _current_session(api, Caller(caller.token, session, csrf_token(clear)))


@router.get("", operation_id="get_session", summary="Who is signed in")
@requires(*ROLES, by_tenant=False)
async def show(call: Calling) -> CurrentSession:
    """Also for a token, which then has no `csrf_token`."""
    return await _current_session(call.api, call.caller)


@router.delete("", operation_id="sign_out", status_code=204, summary="Sign out")
@requires(*ROLES, by_tenant=False, no_key="the call may be repeated without one")
async def sign_out(request: Request, response: Response, call: Calling) -> None:
    """The session's cookie is removed and is no longer valid."""
    session = call.caller.session
    if session is None:
        raise Unauthenticated("There is no session to end; a token is revoked instead.")
    async with call.api.db.connection(share=call.caller.share) as conn:
        await end_session(conn, session, actor=call.actor)
    call.api.callers.forget()
    response.delete_cookie(cookie_name(request), path="/", secure=request.url.scheme == "https", httponly=True)


async def _identify(api: AppState, body: SignIn, address: str | None) -> Caller:
    """The caller that signs in; a refusal is for a person, who sends no header."""
    try:
        if body.token is not None:
            return await api.callers.by_token(body.token.strip(), address)
        return await api.callers.by_link(body.code or "", address)
    except Unauthenticated as error:
        if body.token is None:
            message = "This link was used already, or has expired: a link signs in once, within 15 minutes."
            raise Unauthenticated(message, remedy="Print another one with `atlas sign-in`.") from error
        message = "This token is not valid: it is misspelled, expired or revoked."
        raise Unauthenticated(message, remedy="Copy it again, or ask your administrator for another.") from error


def _refuse_other_sites(request: Request) -> None:
    """Refuse a page of another site that would sign a person in as someone else."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", own_origin(request))
    if site not in ("same-origin", "none") or origin != own_origin(request):
        raise Forbidden("Signing in works from Atlas's own pages only.")


async def _current_session(api: AppState, caller: Caller) -> CurrentSession:
    tenant = None if caller.tenant_id is None else (await api.tenants.find(caller.tenant_id)).slug
    return CurrentSession(
        subject=caller.subject,
        role=caller.role,
        tenant_id=caller.tenant_id,
        tenant=tenant,
        csrf_token=caller.csrf,
        expires_at=caller.session.expires_at if caller.session else caller.token.expires_at,
        currency=api.settings.atlas_currency,
    )
