"""One connection to one nats-server, from dialling to its end. It never reconnects: `nats.NatsBus` makes a new one.

nats-py could reconnect by itself, but it would keep a half-dead TLS connection for up to 30 s while it waits for the
other side's goodbye, gives up for good after some errors of the server, and decides itself what of its buffer is sent
again. A fresh connection each time has none of that.
"""

import asyncio
import base64
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdall.bus.subjects import ALL, inbox, sender_of, subject

CONNECT_S = 1
ANSWER_S = 2
"""A server that does not answer a ping for so long is taken for dead."""
PENDING_FRAMES_MAX = 65_536
PENDING_BYTES_MAX = 32 * 1024 * 1024
UNSENT_BYTES_MAX = 1024 * 1024
_BARRIER = b"barrier "
"""Begins what a connection sends to its own node to see it come back; no frame begins so."""
_PING_S = 3600
"""nats-py's own pings are not needed: `alive` asks the server, and the server asks us."""


class _NoEofRemark(logging.Filter):
    """nats-py reads TLS through a class that asyncio remarks upon at each end of a connection; that helps nobody."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("returning true from eof_received()")


logging.getLogger("asyncio").addFilter(_NoEofRemark())

OnMessage: TypeAlias = Callable[[str, bytes], None]
"""(sender's id, body)."""


class CannotConnect(Exception):
    """No connection; its text says why."""


class Login(msgspec.Struct, frozen=True):
    """How to get in: the rights (a signed text; None: the server knows the key or asks for nothing) and the key."""

    rights: str | None = None
    sign: Callable[[bytes], bytes] | None = None
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None
    """The name that the server's certificate must carry. None: the name that was dialled."""
    tls_first: bool = False
    """TLS from the first byte; a stranger does not even see the server's greeting."""


class Connection:
    """Use: `open`, then `publish` and `alive` until `lost` is done, then `close`."""

    def __init__(
        self,
        url: str,
        system: str,
        node: str,
        *,
        on_frame: OnMessage,
        on_notice: OnMessage | None,
        refused: Callable[[str], None],
    ) -> None:
        """`refused` is told what the server does not allow, in its words."""
        self.url = url
        self.latency_s: float | None = None
        """Of the latest `alive`."""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the connection is of no use any more."""
        self._system, self._node = system, node
        self._on_frame, self._on_notice = on_frame, on_notice
        self._refused = refused
        self._client = Client()
        self._connecting = True
        self._own: asyncio.Future[None] | None = None
        self._own_body = b""

    async def open(self, login: Login) -> None:
        """Dial, subscribe, and see a message to oneself come back: from then on nothing that is sent here is missed.

        (A flush after subscribing is no such barrier in nats-py: its PING may overtake the SUB.)
        Raises CannotConnect; `close` all the same, as a server that hangs may take a while even for that.
        """
        try:
            async with asyncio.timeout(CONNECT_S * 2):
                await self._dial(login)
            self._connecting = False
            await self._subscribe(inbox(self._system, self._node), self._frame_came)
            if self._on_notice is not None:
                await self._subscribe(inbox(self._system, ALL), self._notice_came)
            await self._see_own()
        except CannotConnect:
            await self.close()
            raise
        except (TimeoutError, OSError, nats.errors.Error) as problem:
            await self.close()
            raise CannotConnect(_told(problem)) from None

    async def publish(self, to: str, body: bytes) -> None:
        """Hand over to the client's buffer; a full one waits for the socket. What goes wrong ends the connection."""
        try:
            await self._client.publish(subject(self._system, to, self._node), body)
        except (OSError, nats.errors.Error) as problem:
            self._end(_told(problem))

    async def alive(self) -> None:
        """A question to the server and its answer; the connection is lost if there is none.

        Who asked may be cancelled, the question not: nats-py stops reading for good at an answer to a cancelled one.
        """
        began_s = time.monotonic()
        asked = asyncio.ensure_future(self._client.flush(timeout=ANSWER_S))
        asked.add_done_callback(_is_looked_at)
        try:
            await asyncio.shield(asked)
            self.latency_s = time.monotonic() - began_s
        except (TimeoutError, OSError, nats.errors.Error) as problem:
            self._end(
                _told(problem)
                if not isinstance(problem, asyncio.TimeoutError)
                else "the server does not answer"
            )

    async def excess(self) -> list[str]:
        """What this login may do beyond its own subjects, in words; empty where the servers hold it to them.

        Tried, not read: it publishes as somebody else, and subscribes to somebody else's subject.
        """
        stranger = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(20))
        body = secrets.token_bytes(16)
        loop = asyncio.get_running_loop()
        forged, overheard = loop.create_future(), loop.create_future()
        refused, self._refused = self._refused, _ignore
        on_frame, self._on_frame = self._on_frame, _watch(self._on_frame, stranger, body, forged)
        try:

            async def heard(message: Msg) -> None:
                if message.data == body and not overheard.done():
                    overheard.set_result(None)

            tapped = await self._client.subscribe(  # pyright: ignore[reportUnknownMemberType]
                inbox(self._system, stranger), cb=heard
            )
            await self._client.publish(subject(self._system, self._node, stranger), body)
            await self._client.publish(subject(self._system, stranger, self._node), body)
            await self.alive()
            await asyncio.wait((forged, overheard), timeout=0.3, return_when=asyncio.ALL_COMPLETED)
            with contextlib.suppress(nats.errors.Error):
                await tapped.unsubscribe()
        except (OSError, nats.errors.Error) as problem:
            self._end(_told(problem))
        finally:
            self._refused, self._on_frame = refused, on_frame
        told = ["publish in the name of another node"] if forged.done() else []
        return [*told, "read what is for another node"] if overheard.done() else told

    async def close(self) -> None:
        """What was published is written if the server reads it within a second; the socket is closed in any case."""
        self._connecting = False
        self._end("closed")
        with contextlib.suppress(OSError, nats.errors.Error, asyncio.TimeoutError):
            if self._client.is_connected:
                async with asyncio.timeout(1.0):
                    await self._client.flush()
        with contextlib.suppress(OSError, nats.errors.Error, asyncio.TimeoutError):
            async with asyncio.timeout(1.0):
                await self._client.close()
        # A server that is gone says no goodbye, and TLS would wait for it; nats-py has no call for this.
        writer: Any = getattr(getattr(self._client, "_transport", None), "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def _dial(self, login: Login) -> None:
        await self._client.connect(
            servers=[self.url],
            name=self._node,
            allow_reconnect=False,
            connect_timeout=CONNECT_S,
            ping_interval=_PING_S,
            pending_size=UNSENT_BYTES_MAX,
            flush_timeout=ANSWER_S,
            error_cb=self._error,
            disconnected_cb=self._disconnected,
            closed_cb=self._disconnected,
            **dial_options(login),
        )

    async def _subscribe(self, what: str, came: Callable[[Msg], Awaitable[None]]) -> None:
        await self._client.subscribe(  # pyright: ignore[reportUnknownMemberType]
            what, cb=came, pending_msgs_limit=PENDING_FRAMES_MAX, pending_bytes_limit=PENDING_BYTES_MAX
        )

    async def _see_own(self) -> None:
        self._own = asyncio.get_running_loop().create_future()
        self._own_body = _BARRIER + secrets.token_bytes(16)
        await self._client.publish(subject(self._system, self._node, self._node), self._own_body)
        done, _ = await asyncio.wait(
            (self._own, self.lost), timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED
        )
        if self._own not in done:
            why = self.lost.result() if self.lost.done() else "a message to itself did not come back"
            raise CannotConnect(f"{why}; this login may lack the rights that `holdall nats-config` prints")

    async def _frame_came(self, message: Msg) -> None:
        sender = sender_of(message.subject, self._system, self._node)
        if sender is None:
            self._refused(f"a message on the subject {message.subject[:128]!r}, which no node has")
        elif sender == self._node and message.data.startswith(_BARRIER):
            # Another process with this identity has a barrier of its own.
            if message.data == self._own_body and self._own is not None and not self._own.done():
                self._own.set_result(None)
        else:
            self._on_frame(sender, message.data)

    async def _notice_came(self, message: Msg) -> None:
        sender = sender_of(message.subject, self._system, ALL)
        if sender is not None and sender != self._node and self._on_notice is not None:
            self._on_notice(sender, message.data)

    async def _error(self, problem: Exception) -> None:
        if self._connecting:
            raise CannotConnect(_told(problem))
        if isinstance(problem, (OSError, nats.errors.UnexpectedEOF, nats.errors.StaleConnectionError)):
            return  # `lost` tells
        if isinstance(problem, nats.errors.SlowConsumerError):
            self._refused("more frames than this node can take; some were dropped")
        else:
            self._refused(_told(problem))

    async def _disconnected(self) -> None:
        self._end(_told(self._client.last_error) if self._client.last_error else "the connection ended")

    def _end(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)


def dial_options(login: Login) -> dict[str, Any]:
    """What nats-py's `connect` needs to get in."""
    options: dict[str, Any] = {}
    sign = login.sign
    if sign is not None:

        def signed(nonce: str) -> bytes:
            return base64.b64encode(sign(nonce.encode()))

        options["signature_cb"] = signed
    rights = login.rights
    if rights is not None:
        options["user_jwt_cb"] = lambda: bytearray(rights.encode())
    if login.tls is not None:
        options["tls"] = login.tls
        options["tls_handshake_first"] = login.tls_first
        if login.tls_name is not None:
            options["tls_hostname"] = login.tls_name
    return options


def _watch(
    on_frame: OnMessage, stranger: str, body: bytes, seen: "asyncio.Future[None]"
) -> Callable[[str, bytes], None]:
    def watched(sender: str, data: bytes) -> None:
        if sender == stranger and data == body:
            if not seen.done():
                seen.set_result(None)
        else:
            on_frame(sender, data)

    return watched


def _is_looked_at(asked: "asyncio.Future[None]") -> None:
    """What went wrong is the concern of whoever still waits for it, and nobody's else."""
    if not asked.cancelled():
        asked.exception()


def _ignore(text: str) -> None:
    """The refusals of a trial are what one hopes for."""


def _told(problem: Exception) -> str:
    if isinstance(problem, asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not of this system: {problem.verify_message}"
    text = str(problem).removeprefix("nats: ").strip("'\r\n ")
    return text or type(problem).__name__
