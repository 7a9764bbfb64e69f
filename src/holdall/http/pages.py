"""The dashboard's files, with headers that let a page load nothing but what lies beside it."""

import hashlib
import mimetypes
from pathlib import Path

from starlette.responses import Response

from holdall.http.api import Asking
from holdall.http.problems import Problem

FOLDER = Path(__file__).parent / "dashboard"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer of the server."""
KINDS = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}


async def page(asking: Asking) -> Response:
    """One file of the dashboard; `/` is its index."""
    name = asking.path.get("file", "") or "index.html"
    file = _files().get(name)
    if file is None and name == "index.html":
        raise Problem(
            "not-found",
            "the dashboard is not built here: run scripts/dashboard in the source tree, it needs npm",
        )
    if file is None:
        raise Problem("not-found", f"nothing is at /{name[:80]}. See: /v1/openapi.json")
    data = file.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if asking.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = KINDS.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Response(data, 200, headers, kind)


def _files() -> dict[str, Path]:
    """What may be served, by path: only what lies in the folder, so no path leads out of it."""
    found = FOLDER.rglob("*") if FOLDER.is_dir() else ()
    return {
        file.relative_to(FOLDER).as_posix(): file for file in found if file.is_file() and file.suffix != ".py"
    }
