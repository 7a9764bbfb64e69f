"""Shell completion: the script, and names that are live on the node."""

from holdall.cli.options import converse
from holdall.model import frames
from holdall.model.errors import HoldallError
from holdall.model.names import short_id

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HOLDALL_COMPLETE"
_WHEN_LOADED = """
# In a folder of $fpath this whole file is what the first Tab of a shell calls, and then it has to answer, too.
if [[ $funcstack[1] == _holdall ]]; then
  _holdall_completion "$@"
fi
"""


def script(shell: str) -> str:
    """The completion script for one of SHELLS."""
    from typer._completion_shared import get_completion_script

    text = get_completion_script(prog_name="holdall", complete_var=VARIABLE, shell=shell) + "\n"
    return text + _WHEN_LOADED if shell == "zsh" else text


def complete_need(incomplete: str) -> list[tuple[str, str]]:
    """Pool names, and after `POOL,` the labels they have; with what is free as help."""
    answers: list[tuple[str, str]] = []
    for row in _listing("pools").pools:
        help_text = f"{row.free} of {row.total} free"
        answers.append((row.pool, help_text))
        answers += [(f"{row.pool},{key}={value}", help_text) for key, value in sorted(row.labels.items())]
    return sorted({answer for answer in answers if answer[0].startswith(incomplete)})


def complete_pool(incomplete: str) -> list[tuple[str, str]]:
    """Pool names."""
    return sorted(
        {
            (row.pool, f"{row.free} of {row.total} free")
            for row in _listing("pools").pools
            if row.pool.startswith(incomplete)
        }
    )


def complete_claim(incomplete: str) -> list[tuple[str, str]]:
    """Waiting claims."""
    waits = _listing("queue").waits
    return [
        (short_id(why.claim), why.holder)
        for why in waits
        if short_id(why.claim).startswith(incomplete.upper())
    ]


def complete_lease(incomplete: str) -> list[tuple[str, str]]:
    """Leases that are held."""
    leases = _listing("who").leases
    return [
        (short_id(lease.lease), lease.holder)
        for lease in leases
        if short_id(lease.lease).startswith(incomplete.upper())
    ]


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Jobs of this user's node."""
    from holdall.client.address import find_node
    from holdall.jobs.client import jobs

    try:
        rows = jobs(find_node())
    except HoldallError:
        return []
    return [
        (short_id(row.job), f"{row.name}, {row.state}")
        for row in rows
        if short_id(row.job).startswith(incomplete.upper())
    ]


def _listing(what: str) -> frames.Listing:
    try:
        with converse("") as node:
            match what:
                case "pools":
                    return node.listing(frames.Ask(n=node.number(), what="pools"))
                case "queue":
                    return node.listing(frames.Ask(n=node.number(), what="queue"))
                case _:
                    return node.listing(frames.Ask(n=node.number(), what="who"))
    except HoldallError:
        return frames.Listing(n=0)  # no node, no names; a shell must not show errors while somebody types
