"""Requests that wait: whose each is, and that one id is one request."""

import asyncio

import pytest

from holdall.http.problems import Problem
from holdall.http.requests import HttpRequest, Requests
from holdall.model import location_frames as f
from holdall.model.terms import LeaseRequest


def question(location: str, name: str = "morning-1") -> f.AskOffer:
    return f.AskOffer(location, LeaseRequest(name, {}, wait_ms=60_000), tell=True)


def test_the_same_id_is_the_same_request_and_never_one_of_another_location_or_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def begin(request: HttpRequest) -> None:
        """No node is asked."""

    monkeypatch.setattr(HttpRequest, "begin", begin)

    async def course() -> None:
        requests = Requests("/nowhere")
        first = await requests.make(1000, "eva@lab-1", question("prague"))
        assert await requests.make(1000, "eva@lab-1", question("prague")) is first
        with pytest.raises(Problem) as refused:
            await requests.make(1000, "eva@lab-1", question("brno"))
        assert refused.value.detail.code == "bad-spec"
        assert "waits at prague" in refused.value.detail.detail
        others = await requests.make(1001, "bob@lab-1", question("brno"))
        assert (others.uid, others.location) == (1001, "brno")
        assert requests.find(1000, "prague", "morning-1") is first
        for uid, location in ((1000, "brno"), (1001, "prague")):
            with pytest.raises(Problem):
                requests.find(uid, location, "morning-1")
        first.end(None)
        again = await requests.make(1000, "eva@lab-1", question("brno"))
        assert again.location == "brno"

    asyncio.run(course())
