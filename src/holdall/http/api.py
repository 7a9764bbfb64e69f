"""The table of routes and the way of one request: who asks, what is asked, the handler, the answer or a problem.

The same table makes the description for programs (`description`), so the two can't differ.
"""

import hashlib
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdall.http.callers import READING, Caller
from holdall.http.place import Place
from holdall.http.problems import Problem, detail_of, detail_of_error, respond
from holdall.http.request_words import Body, Query
from holdall.http.words import Answer
from holdall.model.errors import HoldallError

BODY_BYTES_MAX = 64 * 1024
JSON = "application/json"
XML = "application/xml"
CSV = "text/csv"
TOML = "application/toml"
XML_KINDS = frozenset({XML, "text/xml"})
Verb: TypeAlias = Literal["nobody", "see", "claim", "kick"]


class Asking(msgspec.Struct, frozen=True):
    """One request as a handler gets it. `query` and `body` are of the types that the route names."""

    place: Place
    caller: Caller
    query: Any
    body: Any
    path: dict[str, str]
    request: Request


class Document(msgspec.Struct, frozen=True):
    """A body of another kind than JSON, as it was sent."""

    text: bytes


class Told(msgspec.Struct, frozen=True):
    """An answer with a status of its own, or headers."""

    answer: Answer
    status: int = 200
    headers: dict[str, str] = {}


Handler: TypeAlias = Callable[[Asking], Awaitable[Answer | Told | Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `may`: what the caller must be permitted."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    may: Verb
    handler: Handler
    answer: type[Answer] | None
    """None: something else than JSON."""
    later: type[Answer] | None = None
    """What 202 answers where that is another one."""
    query: type[Query] = Query
    body: type[Body] | None = None
    statuses: tuple[int, ...] = (200,)
    """Of success."""
    tag: str = "looking"
    media: str = JSON
    reads: tuple[str, ...] = ()
    """Other media types of the body; the handler gets it as a Document."""
    tells: tuple[str, ...] = ()
    """Other media types of the answer, for those who ask for them."""


async def serve(route: Route, place: Place, request: Request) -> Response:
    """Answer one request; whatever goes wrong is a problem detail."""
    try:
        return await _serve(route, place, request)
    except Problem as problem:
        return respond(problem.detail)
    except HoldallError as error:
        return respond(detail_of_error(error))
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:  # noqa: BLE001 - a mistake of ours is told as one, and logged
        place.log("a request failed", level="error", path=route.path, why=repr(error))
        return respond(
            detail_of("error", "this is a mistake of the server; its log says more", definite=False)
        )


async def _serve(route: Route, place: Place, request: Request) -> Response:
    caller = place.caller(request)
    if route.may != "nobody" and route.may not in caller.may:
        if caller.uid is None:
            raise Problem(
                "unauthorized",
                "who asks over TCP needs an access token or a log-in. Make a token: holdall token create NAME",
            )
        text = (
            "this access token may only look"
            if "claim" not in caller.may
            else f"{route.may} is for the user of the node and root"
        )
        raise Problem("refused", text)
    asking = Asking(
        place, caller, _query(route, request), await _body(route, request), dict(request.path_params), request
    )
    answer = await route.handler(asking)
    if isinstance(answer, Response):
        return answer
    told = answer if isinstance(answer, Told) else Told(answer)
    return _answer(told, request)


def _answer(told: Told, request: Request) -> Response:
    data = msgspec.json.encode(told.answer)
    headers = {"Cache-Control": "no-store" if request.method not in READING else "no-cache", **told.headers}
    if request.method in READING and told.status == 200:
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers["ETag"] = tag
        asked = [
            one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")
        ]
        if tag in asked or asked == ["*"]:
            return Response(status_code=304, headers=headers)
    return Response(data, told.status, headers, JSON)


def wants(request: Request, usual: str, others: AbstractSet[str]) -> bool:
    """Whether the caller asks for one of the other media types, and not for the usual one rather."""
    accepted = [one.partition(";")[0].strip().lower() for one in request.headers.get("accept", "").split(",")]
    return next((one in others for one in accepted if one == usual or one in others), False)


def wants_xml(request: Request) -> bool:
    """Whether the caller asks for XML, and not for JSON rather."""
    return wants(request, JSON, XML_KINDS)


def _query(route: Route, request: Request) -> Query:
    given = request.query_params
    for name in given:
        if len(given.getlist(name)) > 1:
            raise Problem("bad-spec", f"{name[:80]!r} is given more than once")
    try:
        return msgspec.convert(dict(given), route.query, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(route.query.__struct_fields__) or "none"
        raise Problem("bad-spec", f"query: {error}. Known parameters: {known}") from None


async def _body(route: Route, request: Request) -> Body | Document | None:
    if route.body is None:
        return None
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_MAX:
            raise Problem("too-large", f"more than {BODY_BYTES_MAX} bytes")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in route.reads:
        return Document(data)
    if data and kind != JSON:
        also = "".join(f", or {one}" for one in route.reads)
        raise Problem("media", f"the body must be JSON: Content-Type: {JSON}{also}")
    try:
        return msgspec.json.decode(data or b"{}", type=route.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("bad-spec", f"body: {error}") from None
