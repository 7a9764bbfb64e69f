"""`/v1/openapi.json`: the description for programs (OpenAPI 3.1), made of the table of routes and its types."""

import functools
import re
from typing import Any

import msgspec
from starlette.responses import Response

from holdall.http.api import JSON, Asking, Handler, Route
from holdall.http.problems import KINDS, MEDIA, ProblemDetail
from holdall.node.release import version

REFERENCE = "#/components/schemas/{name}"
PROBLEMS = sorted({status for status, _ in KINDS.values()})


def openapi(routes: tuple[Route, ...]) -> Handler:
    """The handler that tells the description of these routes."""

    @functools.cache
    def text() -> bytes:
        return msgspec.json.format(msgspec.json.encode(describe(routes)), indent=1)

    async def tell(asking: Asking) -> Response:
        del asking
        return Response(text(), 200, {"Cache-Control": "no-cache"}, JSON)

    return tell


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The whole document."""
    types: list[Any] = [ProblemDetail]
    types += [route.answer for route in routes if route.answer is not None]
    types += [route.later for route in routes if route.later is not None]
    types += [route.body for route in routes if route.body is not None]
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdall",
            "version": "1",
            "summary": f"HTTP API of a node of holdall {version()}",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"login": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "apiKey", "in": "cookie", "name": "holdall"},
            },
            "responses": {
                "problem": {
                    "description": "A problem (RFC 9457)",
                    "content": {MEDIA: {"schema": {"$ref": REFERENCE.format(name="ProblemDetail")}}},
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {str(status): _success(route, status) for status in route.statuses}
    if route.method == "GET" and route.answer is not None:
        responses["304"] = {"description": "The same as the ETag in If-None-Match names"}
    responses |= {str(status): {"$ref": "#/components/responses/problem"} for status in PROBLEMS}
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": responses,
    }
    if route.body is not None:
        schema = {"$ref": REFERENCE.format(name=route.body.__name__)}
        operation["requestBody"] = {
            "content": {JSON: {"schema": schema}, **_texts(route.reads)},
            "required": bool(_required(route.body)),
        }
    return operation


def _success(route: Route, status: int) -> dict[str, Any]:
    if status == 202 and route.later is not None:
        schema = {"$ref": REFERENCE.format(name=route.later.__name__)}
        return {"description": route.summary, "content": {JSON: {"schema": schema}}}
    if route.answer is None:
        return {"description": route.summary, "content": {route.media: {"schema": {"type": "string"}}}}
    schema = {"$ref": REFERENCE.format(name=route.answer.__name__)}
    content = {route.media: {"schema": schema}, **_texts(route.tells)}
    return {"description": route.summary, "content": content}


def _texts(media: tuple[str, ...]) -> dict[str, Any]:
    return {one: {"schema": {"type": "string"}} for one in media}


def _operation_id(route: Route) -> str:
    """As `get_leases_lease`."""
    words = re.findall(r"[a-z]+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"\{([a-z]+)\}", route.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in names
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.query], ref_template=REFERENCE)
    schema = components[route.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": one}
        for name, one in schema.get("properties", {}).items()
    ]


def _required(body: type[msgspec.Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))
