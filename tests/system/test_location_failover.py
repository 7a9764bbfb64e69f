"""Real nodes elect their location's manager in the JetStream of a real server: its store is lost, the manager is killed."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bus.jetstream import JetStreamServer
from node.waiting import until
from system.many_nodes import DEFAULTS, NodeProcess, System, system

from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseRequest, RequestedTerm

pytestmark = pytest.mark.system
NET = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "first"\n'


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


@pytest.fixture
def server() -> Iterator[JetStreamServer]:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    made = JetStreamServer(folder, bus_system="holdall")
    asyncio.run(made.start())
    yield made
    made.kill()
    shutil.rmtree(folder, ignore_errors=True)


def on_it(hosts: System, server: JetStreamServer, folder: str, more: str = NET) -> NodeProcess:
    node = hosts.node(folder, f"lab-{folder}", bus="", defaults=DEFAULTS + more)
    text = node.config.read_text().replace("[node]\n", '[node]\nlocation = "prague"\n')
    node.config.write_text(f'{text}[bus]\nservers = ["{server.url}"]\n')
    node.serve("--new")
    return node


def ask(node: NodeProcess, question: f.FromClient) -> f.ToClient:
    """As `holdall location` asks, without a process for each question."""
    with node.client() as client:
        client.send(frames.Negotiate(n=client.n(), body=f.pack(question)))
        return f.read_answer(client.wait(frames.Negotiated).body)


def manager(node: NodeProcess) -> str:
    """As this node knows it; empty while it knows none."""
    answer = ask(node, f.ListLocations())
    assert isinstance(answer, f.Locations)
    return answer.rows[0].manager if answer.rows else ""


def hosts_known(node: NodeProcess) -> int:
    """Hosts with something to lease by amount that have been heard of lately."""
    answer = ask(node, f.AskTemplates("prague"))
    if not isinstance(answer, f.TemplatesAre):
        return 0
    return sum(
        one.hosts for one in answer.templates if "net.tx" in one.terms and one.template not in answer.suspect
    )


def wants(node: NodeProcess, amount: int, *, take: bool = True) -> f.ToClient:
    terms = {"net.tx": RequestedTerm(amount)}
    request = LeaseRequest(secrets.token_hex(8), terms, duration=3_600_000)
    return ask(node, f.AskOffer("prague", request, take))


def lease(node: NodeProcess, amount: int) -> str:
    answer = wants(node, amount)
    assert isinstance(answer, f.LeaseIs), answer
    return answer.document.lease


def state(node: NodeProcess, name: str) -> str:
    answer = ask(node, f.AskStatus(name))
    return answer.document.state if isinstance(answer, f.LeaseIs) else ""


def test_ten_leases_live_through_a_deleted_bucket_a_lost_store_and_a_killed_manager(
    hosts: System, server: JetStreamServer
) -> None:
    # The first one that is there leads; it has nothing to lease, so that nothing of a lease dies with it.
    first = on_it(hosts, server, "c", more="")
    until(lambda: manager(first) == "lab-c", "it leads")
    one, two = (on_it(hosts, server, folder) for folder in ("a", "b"))
    until(
        lambda: manager(one) == manager(two) == "lab-c", "all know who leads, and not by the order of names"
    )
    until(lambda: hosts_known(one) == 2, "both hosts are known")
    leases = [lease(one, 20_000) for _ in range(10)]

    def all_found() -> bool:
        return [state(one, name) for name in leases] == ["active"] * 10

    assert all_found()
    asyncio.run(server.delete_bucket())
    until(all_found, "all are found after the bucket was deleted")
    first.kill()
    until(lambda: manager(one) == manager(two) != "lab-c", "another one leads")
    until(lambda: hosts_known(one) == 2, "and both hosts have told it what there is")
    until(all_found, "all are found at the new manager")
    server.kill()
    server.forget()
    asyncio.run(server.start())
    until(lambda: hosts_known(one) == 2, "the nodes are back on the bus, and somebody leads")
    until(all_found, "all are found after the store was lost")
    # Nothing is free, and the new manager knows it.
    refused = wants(two, 1_000)
    assert isinstance(refused, f.NoOffer)
    assert refused.reason == "oversubscribed"
    ask(one, f.EndLease(leases[0]))
    offer = wants(two, 30_000, take=False)
    assert isinstance(offer, f.OfferIs)
    assert offer.document.term("net.tx").granted == 20_000


def test_without_jetstream_the_first_node_that_is_heard_leads(hosts: System, server: JetStreamServer) -> None:
    server.kill()
    asyncio.run(server.start(with_store=False))
    one, two = (on_it(hosts, server, folder) for folder in ("a", "b"))
    until(lambda: manager(one) == manager(two) != "", "somebody leads")
    until(lambda: hosts_known(two) == 2, "both hosts are known")
    assert state(two, lease(two, 20_000)) == "active"
