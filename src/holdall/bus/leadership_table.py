"""The table of leaders: one entry for each location in a key-value bucket of JetStream, written only by compare-and-set.

A table that is gone is made anew. Whatever it says may be old or lost, and nothing is granted by it.
"""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import Awaitable
from time import time
from typing import Any, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.kv import KeyValue

from holdall.bus.connection import Login, dial_options
from holdall.bus.leadership import Entry, Word
from holdall.bus.subjects import bucket, store_inbox
from holdall.model.decoding import decoded

ANSWER_S = 2.0
CONNECT_S = 2.0
ENTRY_BYTES_MAX = 1024
"""Of one value; a leader's word takes about 150."""
T = TypeVar("T")


class TableLost(Exception):
    """No answer, or an error: what was written may or may not stand. Its text says why."""


class Outrun(Exception):
    """The table stands at another revision; nothing was written."""


class Table:
    """One connection to the bucket of a system. Use: `open`, then `look` and `write`, then `close`; one call at a time."""

    def __init__(self, system: str, location: str, *, replicas: int = 1) -> None:
        """`replicas`: on so many servers, where there are so many."""
        self._bucket = bucket(system)
        self._key = key_of(location)
        self._replicas = replicas
        self._client = Client()
        self._values: KeyValue | None = None

    async def open(self, url: str, login: Login, node: str) -> None:
        """Dial and find, or make, the bucket. Raises TableLost; `close` all the same."""
        try:
            await self._client.connect(
                servers=[url],
                name=f"{node} leadership",
                allow_reconnect=False,
                connect_timeout=int(CONNECT_S),
                inbox_prefix=store_inbox(node).removesuffix(".>"),
                error_cb=_raise,
                **dial_options(login),
            )
        except (OSError, nats.errors.Error, TimeoutError) as problem:
            raise TableLost(_told(problem)) from None

    async def look(self) -> Entry | None:
        """What stands there; None: nothing. Raises TableLost."""
        values = await self._there()
        try:
            found = await self._answer(values.get(self._key))
        except nats.js.errors.KeyNotFoundError:
            return None
        return Entry(read_word(found.value or b""), found.revision or 0)

    async def write(self, word: Word, revision: int | None) -> int:
        """The new revision. Raises Outrun or TableLost."""
        values = await self._there()
        body = msgspec.json.encode(word)
        try:
            if revision is None:
                return await self._answer(values.create(self._key, body))
            return await self._answer(values.update(self._key, body, last=revision))
        except nats.js.errors.KeyWrongLastSequenceError:
            raise Outrun from None

    async def close(self) -> None:
        """Idempotent."""
        with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                await self._client.close()
        writer: Any = getattr(getattr(self._client, "_transport", None), "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _there(self) -> KeyValue:
        """The bucket, made if it is not there. Two who make it at once make the same."""
        if self._values is None:
            try:
                self._values = await self._answer(self._store().key_value(self._bucket))
            except nats.js.errors.BucketNotFoundError:
                self._values = await self._make()
        return self._values

    async def _make(self) -> KeyValue:
        """Where the servers can't keep as many copies as are wanted, one. Somebody else may be first."""
        for replicas in dict.fromkeys((self._replicas, 1)):
            with contextlib.suppress(TableLost):
                store: Any = self._store()  # nats-py leaves the types of its options open
                await self._answer(store.add_stream(self._config(replicas)))
                break
        try:
            return await self._answer(self._store().key_value(self._bucket))
        except nats.js.errors.BucketNotFoundError:
            raise TableLost(f"the bucket {self._bucket} can't be made") from None

    def _config(self, replicas: int) -> StreamConfig:
        """As for any key-value bucket, but for the first revision: a bucket that is made anew repeats none of the lost one."""
        return StreamConfig(
            name=f"KV_{self._bucket}",
            subjects=[f"$KV.{self._bucket}.>"],
            max_msgs_per_subject=1,
            max_msg_size=ENTRY_BYTES_MAX,
            discard=DiscardPolicy.NEW,
            deny_delete=True,
            allow_rollup_hdrs=True,
            storage=StorageType.FILE,
            num_replicas=replicas,
            first_seq=int(time() * 1000),
        )

    def _store(self) -> JetStreamContext:
        client: Any = self._client
        store: JetStreamContext = client.jetstream(timeout=ANSWER_S)
        return store

    async def _answer(self, asked: Awaitable[T]) -> T:
        """Of the server. Raises TableLost, and passes on what says something of the key or the bucket."""
        try:
            return await asked
        except (
            nats.js.errors.KeyNotFoundError,
            nats.js.errors.KeyWrongLastSequenceError,
            nats.js.errors.BucketNotFoundError,
        ):
            raise
        except nats.js.errors.NoStreamResponseError:
            raise TableLost("the bucket is gone") from None
        except nats.js.errors.ServiceUnavailableError:
            raise TableLost("this server has no JetStream") from None
        except (OSError, nats.errors.Error, TimeoutError) as problem:
            raise TableLost(_told(problem)) from None


def key_of(location: str) -> str:
    """The location's key in the bucket: names don't appear there."""
    digest = hashlib.sha256(location.encode()).digest()[:15]
    return "leader." + base64.b32encode(digest).decode().lower().rstrip("=")


_words = msgspec.json.Decoder(Word)


def read_word(body: bytes) -> Word | None:
    """None for bytes that are none."""
    try:
        return decoded(_words.decode, body)
    except msgspec.DecodeError:
        return None


async def _raise(problem: Exception) -> None:
    """What nats-py reports beside: each call reports for itself."""
    del problem


def _told(problem: Exception) -> str:
    text = getattr(problem, "description", None) or str(problem).removeprefix("nats: ")
    return text or type(problem).__name__
