"""Folds the account once a day, for as long as the node serves."""

import asyncio
from collections.abc import Callable

from holdall.node.accounting.account import Account
from holdall.node.admission import Log
from holdall.node.store import JournalBroken, JournalFull

PAUSE_S = 86_400.0


class Keeping:
    """One task. `failed`: told why, when the journal can't be written any more."""

    def __init__(self, account: Account, days: int, log: Log, failed: Callable[[str], None]) -> None:
        self._account, self._days, self._log, self._failed = account, days, log, failed
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """At any moment: what was begun is whole, or goes on with the next start."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                folded = await self._account.keep(self._days)
            except JournalFull as problem:
                self._log.warning("account not folded", why=str(problem))
            except JournalBroken as problem:
                self._failed(str(problem))
                return
            else:
                if folded:
                    self._log.info("account folded", rows=folded, days=self._days)
            await asyncio.sleep(PAUSE_S)
