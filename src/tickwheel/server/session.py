"""/v1/me and /v1/session: who one is, and a cookie for browsers.

The cookie is no token: it is known to this process alone, for half a day, and a page of another site cannot send it.
"""

import msgspec
from litestar import Response, delete, get, post
from litestar.datastructures import Cookie

from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import SessionBody
from tickwheel.server.doors import COOKIE, SESSION_S
from tickwheel.server.problems import Problem
from tickwheel.server.reading import body_of
from tickwheel.server.service import Asked, service_of
from tickwheel.server.tokens import Role

__all__ = ["Me", "handlers"]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """What one may do; null without a token where one is needed."""

    role: Role | None
    auth: bool


@get("/v1/me", opt={"role": None})
async def me(request: Asked) -> Answer:
    """Say what the one who asks may do."""
    doors = service_of(request).doors
    return answer(Me(role=None if request.user is None else request.user.role, auth=doors.tokens is not None))


@post("/v1/session", opt={"role": None}, status_code=200)
async def begin(request: Asked) -> Answer:
    """Exchange a token for a cookie."""
    service = service_of(request)
    body = await body_of(request, SessionBody, service.config.depth_max)
    doors = service.doors
    holder = request.user if doors.tokens is None else doors.tokens.holder_of(body.token)
    if holder is None:
        raise Problem(401, "unauthenticated", "Nobody is known by this token", "the token is wrong, or was taken out")
    cookie = Cookie(
        key=COOKIE,
        value=doors.sessions.begin(holder),
        max_age=SESSION_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.scope["scheme"] == "https",
    )
    known = Me(role=holder.role, auth=doors.tokens is not None)
    return answer(known, headers={"set-cookie": cookie.to_header(header="")})


@delete("/v1/session", opt={"role": None}, status_code=204)
async def end(request: Asked) -> Response[None]:
    """Forget the cookie."""
    session = request.cookies.get(COOKIE)
    if session is not None:
        service_of(request).doors.sessions.end(session)
    made: Response[None] = Response(None, status_code=204)
    made.delete_cookie(COOKIE, path="/")
    return made


handlers = [me, begin, end]
