"""A connection to the node, wherever it is: on this host its unix socket, on another one frames over HTTPS.

What comes out is a plain socket that can be polled, in both cases. Over HTTPS a thread stands behind it that speaks TLS and
passes bytes on; when the connection breaks, the socket ends, as that of a node does that has ended.
"""

import contextlib
import errno
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable

from holdall.guardian import remote
from holdall.model import frames
from holdall.model.errors import HoldallError, Refused

PIECE_BYTES = 1 << 16
UNSENT_BYTES_MAX = 1 << 18
"""As much is kept for a side that reads slowly; the other one waits."""
FLUSH_SECONDS_MAX = 3.0
"""So long is what was said last sent on, after the one who said it has closed."""

_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def is_remote(where: str) -> bool:
    """Whether this is an address on the network, and not the path of a socket."""
    return where.startswith(("https:", "http:"))


def connect(where: str, *, within_s: float) -> socket.socket:
    """Connect and wait for it. Raises OSError for a path, HoldallError for an address."""
    if is_remote(where):
        far = remote.connect(where)
        try:
            near = _before_a_thread(lambda ours: pass_on(far, ours))
        except BaseException:
            far.close()
            raise
    else:
        near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    near.settimeout(within_s)
    try:
        if not is_remote(where):
            near.connect(where)
    except BaseException:
        near.close()
        raise
    return near


def begin(where: str) -> socket.socket:
    """Begin to connect, waiting for nothing. Raises OSError for a path; an address that can't be reached ends the socket.

    For an address OSError says that no thread can be begun. Whom the node there does not let in (any more) reads a Denied
    first, which is not definite: it was let in before.
    """
    if not is_remote(where):
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            fresh.connect(where)
        except OSError:
            fresh.close()
            raise
        return fresh
    near = _before_a_thread(lambda ours: _reach(where, ours))
    near.setblocking(False)
    return near


def why_not_let_in(where: str) -> str:
    """Asked of an address where one was let in before: why that is over. Empty: it is not, or nobody answers."""
    try:
        remote.connect(where).close()
    except HoldallError as problem:
        return _not_let_in(where, problem) if isinstance(problem, Refused) else ""
    return ""


def pass_on(far: socket.socket, near: socket.socket) -> None:
    """Pass bytes on between the two, in order, until one of them has ended; then both are."""
    to_far, to_near = bytearray(), bytearray()
    try:
        far.setblocking(False)
        near.setblocking(False)
        is_open = True
        while is_open:
            moved = 0
            for source, sink, unsent in ((near, far, to_far), (far, near, to_near)):
                taken = _take(source, unsent)
                is_open = is_open and taken is not None
                moved += taken or 0
                try:
                    moved += _give(sink, unsent)
                except (BrokenPipeError, ConnectionResetError):
                    unsent.clear()  # who has closed hears nothing more; what he said before is still passed on
            if is_open and not moved:
                _wait(far, near, to_far, to_near)
    except OSError:
        pass  # broken: whoever speaks here connects again
    finally:
        for sink, unsent in ((far, to_far), (near, to_near)):
            with contextlib.suppress(OSError):
                _flush(sink, unsent)
            _end(sink)


def _reach(where: str, ours: socket.socket) -> None:
    try:
        far = remote.connect(where)
    except Refused as problem:
        denied = frames.Denied(0, problem.code, _not_let_in(where, problem), definite=False)
        with contextlib.suppress(OSError):
            ours.sendall(frames.pack(denied))
        _end(ours)
    except (HoldallError, OSError):
        _end(ours)  # the first connection told why; later ones are tried again until the lease's end
    else:
        pass_on(far, ours)


def _not_let_in(where: str, problem: Refused) -> str:
    if not isinstance(problem, remote.Unauthorized):
        return problem.text
    return (
        f"the access token is not known at {where} any more: it was ended there. Another one is made on the node's host: "
        "holdall token create NAME"
    )


def _before_a_thread(work: Callable[[socket.socket], None]) -> socket.socket:
    """One end of a pair, of which the thread has the other. Raises OSError, also where no thread can be begun any more."""
    near, ours = socket.socketpair()
    try:
        threading.Thread(target=work, args=(ours,), name="holdall over https", daemon=True).start()
    except RuntimeError as problem:
        near.close()
        ours.close()
        raise OSError(errno.EAGAIN, "no thread can be begun") from problem
    return near


def _take(source: socket.socket, unsent: bytearray) -> int | None:
    """How much came; None: nothing comes any more. Nothing is taken while too much is unsent."""
    if len(unsent) >= UNSENT_BYTES_MAX:
        return 0
    try:
        data = source.recv(PIECE_BYTES)
    except _LATER:
        return 0
    except ConnectionResetError:
        return None  # it has closed without reading all; what it said before was here first
    unsent += data
    return len(data) or None


def _give(sink: socket.socket, unsent: bytearray) -> int:
    """How much went."""
    if not unsent:
        return 0
    try:
        sent = sink.send(unsent)
    except _LATER:
        return 0
    del unsent[:sent]
    return sent


def _wait(far: socket.socket, near: socket.socket, to_far: bytearray, to_near: bytearray) -> None:
    poll = select.poll()
    for one, incoming, outgoing in ((far, to_near, to_far), (near, to_far, to_near)):
        events = (select.POLLIN if len(incoming) < UNSENT_BYTES_MAX else 0) | (
            select.POLLOUT if outgoing else 0
        )
        if events:  # a closed one would be told again and again
            poll.register(one, events)
    poll.poll()


def _flush(sink: socket.socket, unsent: bytearray) -> None:
    end_s = time.monotonic() + FLUSH_SECONDS_MAX
    while unsent and time.monotonic() < end_s:
        if not _give(sink, unsent):
            poll = select.poll()
            poll.register(sink, select.POLLOUT)
            poll.poll(max(0.0, end_s - time.monotonic()) * 1000)


def _end(one: socket.socket) -> None:
    # A child that was forked meanwhile may have it, too: closing alone would tell nobody.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(one, socket.SHUT_RDWR)
    one.close()
