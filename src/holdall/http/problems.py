"""Errors as problem details (RFC 9457), with the texts that the command line prints."""

import msgspec
from starlette.responses import Response

from holdall.model.errors import HoldallError
from holdall.model.why import Why

MEDIA = "application/problem+json"
TYPE = "https://holdall.invalid/problems/"
"""A name, not an address: `.invalid` never resolves (RFC 6761)."""
REQUEST_EXIT = 64

KINDS: dict[str, tuple[int, str]] = {
    "bad-spec": (400, "can't be read, or out of bounds"),
    "unauthorized": (401, "no access token, or one that is not known"),
    "refused": (403, "not permitted"),
    "not-holder": (404, "no such claim or lease, or not yours"),
    "not-found": (404, "nothing is there"),
    "method": (405, "not with this method"),
    "not-granted": (409, "not granted"),
    "would-deadlock": (409, "waiting would never end"),
    "lost": (410, "the lease has ended"),
    "too-large": (413, "too large"),
    "media": (415, "a body of another kind"),
    "host": (421, "not a name of this node"),
    "never": (422, "can never be satisfied"),
    "bad-job": (422, "a job with mistakes"),
    "busy": (429, "too much at once"),
    "error": (500, "a mistake of the server"),
    "bad-config": (500, "a mistake of the server"),
    "unreachable": (503, "the node does not answer"),
}
"""Status and title of each code."""


class ProblemDetail(msgspec.Struct, frozen=True):
    """The body of every error."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    exit_status: int
    """What `holdall` ends with in this case."""
    definite: bool
    """False: it may have happened all the same."""
    why: Why | None = None
    retry_after_ms: int | None = None


class Problem(Exception):
    """Ends a request with this problem."""

    def __init__(self, code: str, text: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(text)
        self.detail = detail_of(code, text, retry_after_ms=retry_after_ms)

    @classmethod
    def later(cls, error: HoldallError, retry_after_ms: int) -> "Problem":
        """An error of the public interface, after which the same may be asked again; 0: nothing is known of when."""
        problem = cls(error.code, error.text)
        problem.detail = msgspec.structs.replace(
            detail_of_error(error), retry_after_ms=retry_after_ms or None
        )
        return problem


def detail_of(
    code: str,
    text: str,
    *,
    exit_status: int = REQUEST_EXIT,
    why: Why | None = None,
    definite: bool = True,
    retry_after_ms: int | None = None,
) -> ProblemDetail:
    """A problem of this code."""
    status, title = KINDS.get(code, KINDS["error"])
    return ProblemDetail(
        f"{TYPE}{code}", title, status, code, text, exit_status, definite, why, retry_after_ms
    )


def detail_of_error(error: HoldallError) -> ProblemDetail:
    """An error of the public interface."""
    return detail_of(
        error.code, error.text, exit_status=error.exit_status, why=error.why, definite=error.definite
    )


def respond(detail: ProblemDetail) -> Response:
    """The whole answer."""
    headers = {"Cache-Control": "no-store"}
    if detail.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-detail.retry_after_ms // 1000))
    if detail.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(msgspec.json.encode(detail), detail.status, headers, MEDIA)
