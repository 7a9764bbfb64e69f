"""Requests made of the description itself: none is answered by a mistake of the server, and all answers are described."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from node.waiting import until
from system.web import Web, web

from holdall.http.described import describe
from holdall.http.table import V1

pytestmark = pytest.mark.system

ENDLESS = "/v1/events"
PLACE = "prague"
schema: Any = schemathesis.openapi.from_dict(describe(V1))  # pyright: ignore[reportUnknownMemberType]
EACH = 12
"""Requests to each route."""
SUPPRESSED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""What requests cost to make says nothing about their answers."""


@pytest.fixture(scope="module")
def site() -> Iterator[Web]:
    with web(location=PLACE) as made:
        until(
            lambda: made.ask("GET", f"/v1/locations/{PLACE}/hosts").json.get("total") == 1,
            "the location has its host",
        )
        yield made


@pytest.fixture(scope="module")
def client(site: Web) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(site.path))
    with httpx.Client(transport=transport, base_url="http://node", timeout=60, trust_env=False) as made:
        yield made


def operations() -> list[Any]:
    return [one.ok() for one in schema.get_all_operations() if one.ok().path != ENDLESS]


@pytest.mark.parametrize("operation", operations(), ids=lambda one: f"{one.method.upper()} {one.path}")
def test_no_request_of_the_description_is_a_mistake_of_the_server(
    operation: Any, client: httpx.Client
) -> None:
    seen: list[int] = []

    @settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=SUPPRESSED,
    )
    def one(case: Any) -> None:
        given_query: dict[str, Any] = case.query or {}
        query = {name: value for name, value in given_query.items() if name != "wait"}
        if "location" in (case.path_parameters or {}):
            # One that there is; another is answered at once, whatever is asked.
            case.path_parameters["location"] = PLACE
        body = case.as_transport_kwargs(base_url="http://node")
        answer = client.request(
            case.method,
            body["url"].removeprefix("http://node"),
            params=query,
            headers={
                name: value
                for name, value in body.get("headers", {}).items()
                if name.lower() == "content-type"
            },
            content=body.get("data"),
            json=body.get("json"),
        )
        seen.append(answer.status_code)
        described = operation.definition.raw["responses"]
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in described
        assert answer.headers["content-type"] in {"application/json", "application/problem+json"}

    given(case=operation.as_strategy())(one)()
    assert len(seen) >= 1


def test_a_client_made_of_the_description_claims_and_gives_back(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    by_name = {
        one["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }

    def call(name: str, body: object = None, **values: str) -> Any:
        method, path = by_name[name]
        answer = client.request(method, path.format(**values), json=body)
        assert answer.is_success, answer.text
        return answer.json()

    call("post_drain", {"on": False})  # what was tried before may have begun it
    needed = document["components"]["schemas"]["ClaimBody"]["required"]
    assert needed == ["needs"]
    claim = call("post_claims", {"needs": ["board:1"]})
    assert call("get_claims_claim", claim=claim["claim"])["state"] == "granted"
    assert call("delete_claims_claim", claim=claim["claim"])["what"] == "released"
