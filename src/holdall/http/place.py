"""What all requests of the server share."""

import asyncio
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import Request

from holdall.client.doctor import examine
from holdall.client.finding import Finding
from holdall.http.access import Access
from holdall.http.audit import Audit
from holdall.http.callers import Caller, caller_of
from holdall.http.claims import Claims
from holdall.http.job_reading import JobReading
from holdall.http.located import Located
from holdall.http.meters import Meters
from holdall.http.mirror import Mirror
from holdall.http.problems import Problem
from holdall.http.reading import Reading, Shared
from holdall.http.requests import Requests
from holdall.node.clock import wall_ms
from holdall.node.front import FrontOrders
from holdall.node.logins import FOLDER


class Log(Protocol):
    """Where lines of the log go."""

    def __call__(self, event: str, *, level: str = "info", **values: Any) -> None:
        """One line."""
        ...


class Place:
    """One for a server."""

    def __init__(self, orders: FrontOrders, log: Log) -> None:
        self.orders = orders
        self.log = log
        self.access = Access(Path(orders.state))
        self._audit = Audit(Path(orders.state) / FOLDER)
        self.reading = Reading(orders.socket)
        self.examined = Shared(self._examine)
        """What the doctor finds on this host."""
        self.jobs = JobReading(self.reading)
        self.located = Located(self.reading)
        self.mirror = Mirror(self.reading, orders.node)
        self.meters = Meters(self.reading)
        self.claims = Claims(orders.socket, self.meters.renewal)
        self.requests = Requests(orders.socket)

    async def _examine(self) -> list[Finding]:
        config = Path(self.orders.config) if self.orders.config else None
        return await asyncio.to_thread(examine, config, f"unix://{self.orders.socket}")

    def caller(self, request: Request) -> Caller:
        """Who asks. Raises Problem."""
        return caller_of(request, self.orders, self.access)

    def audit(self, what: str, caller: Caller, *, about: str = "", **values: Any) -> None:
        """One line of the audit log, which is kept, and of the log."""
        line: dict[str, Any] = {
            "at_ms": wall_ms(), "what": what, "user": caller.user, "uid": caller.uid, "via": caller.via,
            "token": caller.name, "about": about, **values,
        }  # fmt: skip
        try:
            self._audit.write(line)
        except OSError as problem:
            self.log("the audit log can't be written", level="error", why=str(problem))
            raise Problem(
                "error", f"the audit log can't be written ({problem.strerror}); nothing was done"
            ) from None
        self.log("audit", level="info", **line)

    def close(self) -> None:
        """End everything that runs."""
        self.mirror.close()
        self.claims.close()
        self.requests.close()
        self.reading.close()
