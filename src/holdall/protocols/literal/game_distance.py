"""States of the printed game that are alike but for numbers that only grow: attempts, forms, versions. Lab only."""

from collections.abc import Mapping

import msgspec

from holdall.protocols.literal.game_manager import PoolState
from holdall.protocols.literal.game_messages import Form, View
from holdall.protocols.literal.game_task import TaskState


class Distance:
    """Each number by its distance from the newest of its kind: equal distances have the same future."""

    def __init__(self, tasks: Mapping[str, TaskState | None], versions: Mapping[str, int]) -> None:
        """`tasks`: the present one of each host. `versions`: the newest of each pool's node."""
        self._attempts = {task.claim: task.attempt for task in tasks.values() if task is not None}
        self._sent = {
            (task.claim, about.node): about.sent
            for task in tasks.values()
            if task is not None
            for about in task.about
        }
        self._versions = versions

    def of_task(self, task: TaskState | None) -> TaskState | None:
        """A task's state."""
        if task is None:
            return None
        about = tuple(
            msgspec.structs.replace(one, sent=0, view=self._view(one.node, one.view)) for one in task.about
        )
        return msgspec.structs.replace(task, attempt=0, about=about)

    def of_pool(self, node: str, pool: PoolState) -> PoolState:
        """A manager's state."""
        newest = tuple((claim, self._sent.get((claim, node), 0) - number) for claim, number in pool.newest)
        return msgspec.structs.replace(pool, newest=newest, view=self._view(node, pool.view))

    def of_message(self, sender: str, to: str, message: msgspec.Struct) -> msgspec.Struct:
        """A form or a view in flight."""
        if isinstance(message, View):
            return self._view(sender, message)
        if isinstance(message, Form):
            attempt = self._attempts.get(message.claim, 0) - message.attempt
            number = self._sent.get((message.claim, to), 0) - message.number
            return msgspec.structs.replace(message, attempt=attempt, number=number)
        return message

    def _view(self, node: str, view: View) -> View:
        requests = tuple(
            msgspec.structs.replace(asked, attempt=self._attempts.get(asked.claim, 0) - asked.attempt)
            for asked in view.requests
        )
        return msgspec.structs.replace(view, version=self._versions[node] - view.version, requests=requests)
