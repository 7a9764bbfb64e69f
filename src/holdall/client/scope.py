"""Which lease the running code holds already, and where in the user's code a claim was made.

The scope of a lease is the body of its `with`: a context variable, so tasks that are started in the body are in it, too, and
`asyncio.to_thread`; a thread of its own begins without it. A child process that inherits HOLDALL_LEASE is in the scope of that lease.
"""

import os
import sys
from contextvars import ContextVar
from pathlib import Path

from holdall.client.tenure import Tenure

LEASE_ENV = "HOLDALL_LEASE"
BEGUN_ENV = "HOLDALL_RUN_BEGUN"
"""A file that `holdall run --on` makes when the other node has begun: then its exit status may be the command's own."""
FACTS_ENV = "HOLDALL_RUN_FACTS"
"""The file of an attempt's facts, to which `holdall run --on` adds the lease that the command has over there."""

site: ContextVar[str] = ContextVar("holdall call site", default="")
"""Set where somebody else's code makes a claim for a caller that it can name better than a stack could."""
_scope: ContextVar[tuple[Tenure, ...]] = ContextVar("holdall leases in scope", default=())


def enter(tenure: Tenure) -> None:
    """The body of this lease begins."""
    _scope.set((*_scope.get(), tenure))


def leave(tenure: Tenure) -> None:
    """The body has ended, or the lease was given back in the middle of it."""
    _scope.set(tuple(held for held in _scope.get() if held is not tenure))


def outer_key() -> str:
    """The key of the innermost lease that this code holds; empty when it holds none."""
    for tenure in reversed(_scope.get()):
        if not tenure.released and tenure.lost is None:
            return tenure.key
    return os.environ.get(LEASE_ENV, "")


def outer_tenure(lease: str) -> Tenure | None:
    """The lease of this process with this id in whose scope the running code is."""
    for tenure in reversed(_scope.get()):
        if tenure.lease.lease == lease:
            return tenure
    return None


_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_PLUMBING = (os.sep + "contextlib.py", os.sep + "asyncio" + os.sep, os.sep + "concurrent" + os.sep)


def call_site() -> str:
    """`hil/conftest.py:31`: the innermost frame that is not ours; relative to the working folder where below it."""
    if named := site.get():
        return named[-512:]
    # The only way to name a caller that costs less than a whole traceback and imports nothing.
    frame = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and _is_plumbing(frame.f_code.co_filename):
        frame = frame.f_back
    path = frame.f_code.co_filename
    if Path(path).is_absolute():
        near = os.path.relpath(path)
        path = path if near.startswith("..") else near
    return f"{path}:{frame.f_lineno}"[-512:]


def _is_plumbing(path: str) -> bool:
    return path.startswith(_OURS) or any(part in path for part in _PLUMBING)
