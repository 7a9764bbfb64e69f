"""How long a negotiation takes among many hosts that are real processes: `python bench/location_hosts.py [HOSTS]`, 20 by default.

Starts so many nodes of one location on this machine, each with a bandwidth to lease, waits until the location's manager
knows them all, and asks then for an offer of each and declines it, one after the other, at a node that does not manage. A
node takes about 60 MB and a second of processor time to start. The time is from the question's frame to the answer's.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from system.many_nodes import NodeProcess, system

from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.model import location_frames as f
from holdall.model.errors import HoldallError
from holdall.model.terms import LeaseRequest, RequestedTerm

HOSTS = 20
TRIES = 15
KNOWN_WITHIN_S = 180
CONFIG = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\n'


def main(hosts: int) -> int:
    """The exit status."""
    began = time.monotonic()
    with system() as made:
        nodes = [made.node(f"n{number}", f"lab-{number}", defaults=CONFIG) for number in range(hosts)]
        for node in nodes:
            text = node.config.read_text()
            node.config.write_text(text.replace("[node]\n", '[node]\nlocation = "prague"\n'))
        nodes[0].serve("--new")
        for node in nodes[1:]:
            node.join(nodes[0].command("join").stdout.strip())
            print(f"\r{node.name} serves after {time.monotonic() - began:.0f} s", end="", flush=True)
        print()
        known = wait_until_known(nodes[-1], hosts)
        print(f"{known} of {hosts} hosts are known to the manager after {time.monotonic() - began:.0f} s")
        took = [negotiate(nodes[-1], f"r{number}") for number in range(TRIES)]
        took_ms = sorted(1000 * one for one in took)
        print(f"{TRIES} negotiations: median {median(took_ms):.0f} ms, longest {took_ms[-1]:.0f} ms")
        for node in nodes:
            node.kill()
    return 0 if known == hosts else 1


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
