"""Waiting in code that blocks, so that Ctrl-C is heard and nothing is left behind."""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from holdall.client import scope
from holdall.client.calls import ClaimCall
from holdall.client.link import Link
from holdall.client.tenure import Tenure
from holdall.model import frames
from holdall.model.why import Why

Outcome = TypeVar("Outcome")

LOOK_UP_SECONDS = 0.5


def granted(link: Link, claim: frames.Claim, on_wait: Callable[[Why], None] | None = None) -> Tenure:
    """Send a claim and wait for its grant; whoever is interrupted meanwhile leaves nothing behind.

    `on_wait` is called in this thread, with each news of why it waits.
    """
    news: queue.SimpleQueue[Why | None] = queue.SimpleQueue()
    call: ClaimCall = link.claim(
        claim, on_queued=None if on_wait is None else lambda queued: news.put(queued.why)
    )
    try:
        if on_wait is not None:
            call.future.add_done_callback(lambda _: news.put(None))
            _tell(news, on_wait)
        tenure = result_of(call.future)
        if tenure.view and tenure.outer is None:
            tenure.outer = scope.outer_tenure(tenure.lease.lease)
    except BaseException:
        # KeyboardInterrupt, too: granted in this moment or not, nobody gets it.
        link.abandon(call)
        raise
    return tenure


def _tell(news: "queue.SimpleQueue[Why | None]", on_wait: Callable[[Why], None]) -> None:
    """Until None comes: it is decided."""
    while True:
        try:
            why = news.get(timeout=LOOK_UP_SECONDS)
        except queue.Empty:
            continue
        if why is None:
            return
        on_wait(why)


def result_of(future: "Future[Outcome]") -> Outcome:
    """The outcome, whenever it comes.

    A signal that arrives just before a thread begins to wait does not end the waiting, so Ctrl-C could go unheard:
    therefore the waiting is cut into pieces.
    """
    while True:
        try:
            return future.result(LOOK_UP_SECONDS)
        except TimeoutError:  # of this piece, or NotGranted, which is one too
            if future.done():
                return future.result()
