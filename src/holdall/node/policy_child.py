"""Tries the conditions of a policy in a process of its own: `python -m holdall.node.policy_child`, started by `policies`.

Standard input is JSON: `{"cpu_s": 2, "tries": [{"text": CEL, "variables": {...}}, ...]}`. For each condition a line `{"at":
INDEX}` is written before it is tried; afterwards `{"at": INDEX, "problem": TEXT}` where it can't be used. One that takes longer
than `cpu_s` of processor time, or 512 MiB, ends this process, and the last line tells which it was.
"""

import json
import resource
import signal
import sys
from typing import Any

MEMORY_BYTES_MAX = 512 * 1024 * 1024


def main() -> None:
    """Try all conditions that stand on standard input."""
    job = json.load(sys.stdin)
    from holdall.policy.conditions import compiled

    compiled("true")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for at, one in enumerate(job["tries"]):
        _tell({"at": at})
        signal.setitimer(signal.ITIMER_PROF, job["cpu_s"])
        problem = _problem(one["text"], one["variables"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        if problem:
            _tell({"at": at, "problem": problem})
    _tell({"done": True})


def _problem(text: str, variables: dict[str, Any]) -> str:
    """Why the condition is refused. Errors that depend on the values of a request are none."""
    from holdall.policy.conditions import compiled, explain

    try:
        program = compiled(text)
    except ValueError as error:
        return f"is no CEL: {explain(error)}"
    try:
        value = program.execute(variables)
    except RuntimeError as error:
        return explain(error)
    except Exception:  # noqa: BLE001  # a division by what is 0 here: the rule fails closed when it happens
        return ""
    return "" if isinstance(value, bool) else f"gives {type(value).__name__}; compare it with something"


def _tell(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
