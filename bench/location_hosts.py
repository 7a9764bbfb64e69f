"""How long a negotiation takes among many hosts that are real processes: `python bench/location_hosts.py [HOSTS]`, 20 by default.

Starts so many nodes of one location on this machine, a few at a time, each with a bandwidth to lease, waits until the location's
manager knows them all, and asks then for an offer of each and declines it, one after the other, at a node that does not
manage. A node takes about 65 MB and two seconds of processor time to start. The time is from the
question's frame to the answer's. A request that may not wait is one round of proposals, of all hosts at once.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from system.many_nodes import NodeProcess, System, system

from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import HoldallError
from holdall.model.terms import LeaseRequest, RequestedTerm

HOSTS = 20
AT_ONCE = 4
"""More that start together only wait for each other's processor time."""
TRIES = 15
KNOWN_WITHIN_S = 180
CONFIG = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\n'
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main(hosts: int) -> int:
    """The exit status."""
    began = time.monotonic()
    with system() as made:
        nodes = serve(made, hosts)
        print(f"{hosts} nodes serve after {time.monotonic() - began:.0f} s")
        known = wait_until_known(nodes[-1], hosts)
        print(f"{known} of {hosts} hosts are known to the manager after {time.monotonic() - began:.0f} s")
        busy_s, resident, since = busy_seconds(nodes), resident_bytes(nodes), time.monotonic()
        took = [negotiate(nodes[-1], f"r{number}") for number in range(TRIES)]
        busy = (busy_seconds(nodes) - busy_s) / (time.monotonic() - since)
        took_ms = sorted(1000 * one for one in took)
        print(f"{TRIES} negotiations: median {median(took_ms):.0f} ms, longest {took_ms[-1]:.0f} ms")
        print(f"load {os.getloadavg()[0]:.1f}; all nodes: {busy:.2f} processors, {resident >> 20:,} MB")
        for node in nodes:
            node.kill()
    return 0 if known == hosts else 1


def serve(made: System, hosts: int) -> list[NodeProcess]:
    """So many nodes of one location; the first three run a server each."""
    nodes = [made.node(f"n{number}", f"lab-{number}", defaults=CONFIG) for number in range(hosts)]
    for node in nodes:
        text = node.config.read_text()
        node.config.write_text(text.replace("[node]\n", '[node]\nlocation = "prague"\n'))
    nodes[0].serve("--new")
    for start in range(1, hosts, AT_ONCE):
        together = nodes[start : start + AT_ONCE]
        for node in together:
            node.begin_join(f"holdall join {invite(nodes[0])}")
        for node in together:
            node.wait()
        print(f"\r{start + len(together)} nodes serve", end="", flush=True)
    print("\r", end="")
    return nodes


def invite(node: NodeProcess) -> str:
    """A code for one more node."""
    with Conversation(str(node.socket)) as conversation:
        answer = conversation.ask(frames.Invite(conversation.number()))
    assert isinstance(answer, frames.Invited), answer
    return answer.code


def busy_seconds(nodes: list[NodeProcess]) -> float:
    """Of processor time, of the nodes' own processes so far."""
    ticks = sum(int(one) for node in nodes for one in stat(node, "stat").rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(nodes: list[NodeProcess]) -> int:
    """Shared pages are counted once for each."""
    return PAGE_BYTES * sum(int(stat(node, "statm").split()[1]) for node in nodes)


def stat(node: NodeProcess, name: str) -> str:
    """What the kernel says of its process."""
    assert node.process is not None
    return Path(f"/proc/{node.process.pid}/{name}").read_text()


def wait_until_known(node: NodeProcess, hosts: int) -> int:
    """How many there are when all are known, or when there is no more time."""
    until, known = time.monotonic() + KNOWN_WITHIN_S, 0
    while known < hosts and time.monotonic() < until:
        time.sleep(0.5)
        with suppress(HoldallError), Conversation(str(node.socket)) as conversation:
            answer = LocationTalk(conversation).expect(f.AskTemplates("prague"), f.TemplatesAre)
            known = sum(one.hosts for one in answer.templates)
    return known


def negotiate(node: NodeProcess, name: str) -> float:
    """Seconds until an offer of one round."""
    with Conversation(str(node.socket)) as conversation:
        talk = LocationTalk(conversation)
        request = LeaseRequest(name, {"net.tx": RequestedTerm(50_000)}, duration=20_000)
        began = time.monotonic()
        offer = talk.expect(f.AskOffer("prague", request), f.OfferIs)
        took = time.monotonic() - began
        talk.ask(f.DeclineOffer(offer.document.lease))
    return took


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else HOSTS))
