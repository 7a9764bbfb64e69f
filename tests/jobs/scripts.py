"""Jobs for tests, written as files are."""

from pathlib import Path

from holdall.jobs.file import parse_job
from holdall.jobs.spec import JobSpec


def job(text: str) -> JobSpec:
    return parse_job(text, source="job.toml", folder=Path("/tmp")).spec


ONE = job("[task.a]\nrun='x'")
RETRY = job("[task.a]\nrun='x'\nretry={times=1,wait='1s'}")
AGAIN = job("[task.a]\nrun='x'\nretry=2")
SEQUENCE = job("[task.a]\nrun='x'\n[task.b]\nrun='x'\nafter='a'")
CHAIN = job("[task.a]\nrun='x'\n[task.b]\nrun='x'\nafter='a'\n[task.c]\nrun='x'\nafter='b'")
JOIN = job("[task.a]\nrun='x'\n[task.b]\nrun='x'\n[task.c]\nrun='x'\nwhen='a.ok or b.ok'")
CHOICE = job(
    "[task.a]\nrun='x'\nmay_fail=true\n[task.b]\nrun='x'\nwhen='a.ok'\n[task.c]\nrun='x'\nwhen='a.failed'\n"
    "[task.d]\nrun='x'\nwhen='b.ok or c.ok'"
)
LOOP = job("[task.a]\nrun='x'\nretry={times=1,wait='1s',on=['lost']}\nrepeat={times=2,until='ok',wait='1s'}")
ROUNDS = job("[task.a]\nrun='x'\nretry=1\nrepeat=2")
ITEMS = job("[task.a]\nrun='x'\nforeach=['1','2']\n[task.b]\nrun='x'\nafter='a'")
GROUP = job(
    "[task.a]\nrun='x'\nmay_fail=true\n[task.b]\nrun='x'\nwhen='a.ok'\nmay_fail=true\n[task.c]\nrun='x'\nwhen='a.ok or a.failed'\n"
    "[group.g]\ntasks=['a','b']\nuntil='b.ok'\ntimes=2"
)
