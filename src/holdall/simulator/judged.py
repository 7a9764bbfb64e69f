"""One run under both judges: the one that looks on, and the checker over what the clients' history says afterwards."""

from collections.abc import Callable

import msgspec

from holdall.checker.records import AnyRecord
from holdall.machine.trace import Step
from holdall.simulator.history import judge_records
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup


def judged(
    setup: Setup,
    *,
    on_step: Callable[[Step], None] | None = None,
    on_record: Callable[[AnyRecord], None] | None = None,
) -> Report:
    """The report, with what the checker found among its violations, each as `rule: text`.

    What a machine raises is a violation, too. A run that the first judge has ended is not judged by its history, which
    is no whole one then.
    """
    said: list[AnyRecord] = []

    def say(record: AnyRecord) -> None:
        said.append(record)
        if on_record is not None:
            on_record(record)

    run = Run(setup, on_step=on_step, on_record=say)
    try:
        report = run.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it would have ended a node
        run.judge.property("driver", [f"raised: {error!r}"])
        report = run.report()
    if report.violations:
        return report
    verdict = judge_records(said)
    found = [f"{one.rule}: {one.text}" for one in verdict.violations]
    found += [f"damaged history: {text}" for text in verdict.damage]
    found += [f"history proves too little: {text}" for text in verdict.shortfalls]
    return msgspec.structs.replace(report, violations=found) if found else report
