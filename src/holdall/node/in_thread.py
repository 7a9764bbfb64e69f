"""A node in a thread of another program, for demonstrations and tests."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import TextIO

from holdall.node.service import Service
from holdall.node.settings import read_settings


class ServiceThread:
    """A node in a thread of this process, for demonstrations and tests: no signals, everything else real."""

    def __init__(self, config: Path, *, new: bool = False, log_to: TextIO | None = None) -> None:
        self._settings = read_settings(config)
        self._new = new
        self._log_to = log_to
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="holdall-node", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._service: Service | None = None

    def start(self) -> Path:
        """Start it and return its socket's path. Raises what `Service.start` raises."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self._settings.socket

    def stop(self) -> None:
        """Stop it and wait until it has given everything back. Idempotent."""
        if self._loop is not None and self._service is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._service.stop, "stopped by its owner")
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        # Whatever it is, the thread that started the node has to hear of it.
        except BaseException as error:  # noqa: BLE001
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = Service(self._settings, new=self._new, log_to=self._log_to)
        try:
            await self._service.start()
            self._ready.set()
            await self._service.until_stopped()
        finally:
            await self._service.close()
