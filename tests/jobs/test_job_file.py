"""Job files: what they say, and each mistake with its line and column."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.jobs.file import job_of, parse_job, read_job
from holdall.jobs.problems import PROBLEMS_MAX, SHOWN_MAX, BadJob
from holdall.jobs.spec import TASKS_MAX, Repeat, Retry, decode_job, encode_job

WHOLE = """
name = "nightly"
folder = "work"
env = { MODE = "fast" }

[task.fetch]
run = "curl -O x"

[task.build]
run = ["make", "{item}"]
foreach = ["arm64", "x86"]
needs = ["cpu:4", ["board,arch={item}", "board:2"]]
after = "fetch"
retry = { times = 2, on = ["lost", "timeout"], wait = "5s" }
timeout = "10m"
for = "1h"
wait = 60

[task.tune]
run = ["tune"]
after = ["build"]
repeat = { times = 5, until = 3, wait = "1s" }
may_fail = true

[task.end]
run = ["report"]
when = "build.ok and tune.status == 3"
"""

GROUPED = "[task.a]\nrun='x'\n[task.b]\nrun='x'\nafter='a'\n[group.g]\n"


def problems(text: str) -> list[str]:
    with pytest.raises(BadJob) as raised:
        parse_job(text, source="j", folder=Path("/"))
    return str(raised.value).split("\n")


def test_all_that_a_file_can_say() -> None:
    job = parse_job(WHOLE, source="j", folder=Path("/base")).spec
    fetch, build, tune, end = job.tasks
    assert (job.name, job.folder, job.env) == ("nightly", "/base/work", {"MODE": "fast"})
    assert fetch.run == ("/bin/sh", "-c", "curl -O x")
    assert build.needs == (("cpu:4",), ("board,arch={item}", "board:2"))
    assert build.retry == Retry(2, ("lost", "timeout"), 5_000)
    assert (build.timeout_ms, build.hold_for_ms, build.wait_ms) == (600_000, 3_600_000, 60_000)
    assert tune.repeat == Repeat(5, "3", 1_000)
    assert tune.may_fail
    assert end.after == ("build", "tune")
    assert decode_job(encode_job(job)) == job


def test_a_mapping_says_the_same() -> None:
    job = job_of({"task": {"a": {"run": ["x"], "needs": ["gpu:1"]}}}, folder=Path("/f")).spec
    assert (job.name, job.tasks[0].needs, job.folder) == ("job", (("gpu:1",),), "/f")
    with pytest.raises(BadJob, match=r'^job: task "a" waits for "b"'):
        job_of({"task": {"a": {"run": ["x"], "after": ["b"]}}}, folder=Path("/f"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[task.a\nrun=1", "j:1:8: not TOML: Expected ']' at the end of a table declaration"),
        ("x = ", "j:1:5: not TOML: Invalid value"),
        ("name = 'n'", "j:1:1: no task. Write at least one"),
        ("tusk = 1\n[task.a]\nrun='x'", "j:1:1: unknown key 'tusk'. Did you mean \"task\"?"),
        ("[task.a]\nrun='x'\nneeds=['gpu:1',\n 'Gpu:1']", "j:4:2: bad SPEC 'Gpu:1'"),
        ("[task.a]\nrun='x'\nneeds=['gpu:0']", "j:3:8: bad SPEC 'gpu:0': the count"),
        ("[task.a]\nneeds=['gpu']", "j:1:1: no run."),
        ("[task.a]\nrun=[]", "j:2:1: run is empty"),
        ("[task.A]\nrun='x'", "j:1:1: 'A' can't name a task"),
        ("[task.not]\nrun='x'", "j:1:1: 'not' can't name a task"),
        ("[task.a]\nrun='x'\nafter='b'", 'j:3:1: task "a" waits for "b", which is no task. There is: a.'),
        ("[task.a]\nrun='x'\n\n  after = ['a']", 'j:4:3: task "a" waits for itself'),
        ("[task.abc]\nrun='x'\n[task.b]\nrun='x'\nafter=['abc','abd']", 'Did you mean "abc"?'),
        ("[task.a]\nrun='x'\nwhen='b.ok'", 'j:3:1: task "a" waits for "b", which is no task'),
        ("[task.a]\nrun='x'\nwhen='a..ok'", "j:3:1: when: '.' is none of ok"),
        ("[task.a]\nrun='x'\n[task.b]\nrun='x'\nwhen='a.ok and a.failed'", 'j:5:1: task "b" can never run'),
        ("[task.a]\nrun='x'\nretry={times=2,on=['ok']}", "j:3:20: 'ok' is no end that can be retried"),
        ("[task.a]\nrun='x'\nrepeat={until='ok'}", "j:3:1: repeat without times"),
        ("[task.a]\nrun='x'\nrepeat={times=0}", "j:3:9: times: 0 where a whole number from 1 to 1000"),
        ("[task.a]\nrun='x'\nforeach=[]", "j:3:1: foreach has no item"),
        ("[task.a]\nrun='x'\nforeach=['1','1']", "j:3:14: foreach: '1' stands here twice"),
        ("[task.a]\nrun='x'\nforeach=['a b']", "j:3:10: foreach: 'a b': an item has"),
        ("[task.a]\nrun='x {item}'\nforeach=['1']", "j:2:1: {item} in a text for the shell"),
        ("[task.a]\nrun='x'\ntimeout='soon'", "j:3:1: timeout 'soon' is not a duration"),
        ("[task.a]\nrun='x'\nmay_fail='yes'", "j:3:1: may_fail: 'yes' where true or false is expected"),
        ("[task.a]\nrun='x'\non='b'", "j:3:1: on without needs"),
        ("[task.a]\nrun='x'\nenv={A=1}", "j:3:6: env: 1 where a text of at most"),
        ("[task.a]\nrun='x'\nretry=1000", "j:3:1: retry: 1000 where a whole number from 0 to 100"),
        (GROUPED + "tasks=['a','x']\nuntil='a.ok'\ntimes=2", 'j:7:12: group "g": "x" is no task'),
        (
            GROUPED + "tasks=['a','b']\nuntil='c.ok'\ntimes=2",
            'j:8:1: until names "c", which is not of the group',
        ),
        (GROUPED + "tasks=['a','b']\nuntil='b.okk'\ntimes=2", "j:8:1: until: 'okk' is none of"),
        (GROUPED + "tasks=['a']\nuntil='a.ok and a.failed'\ntimes=2", "j:8:1: until can never come true"),
        (GROUPED + "tasks=['a']\nuntil='a.ok'", "j:6:1: a group without times; e.g. times = 5"),
        (GROUPED + "tasks=['a']\nuntil='a.ok'\ntimes=2000", "j:9:1: times: 2000 where a whole number from 1"),
        (
            GROUPED + "tasks=['a','c']\nuntil='c.ok'\ntimes=2\n[task.c]\nrun='x'\nafter='b'",
            'j:7:1: tasks outside of group "g" stand between its tasks: c -> b -> a',
        ),
        (
            GROUPED + "tasks=['a']\nuntil='a.ok'\ntimes=2\n[group.h]\ntasks=['a']\nuntil='a.ok'\ntimes=2",
            'j:11:8: task "a" is in two groups: g and h',
        ),
        (
            GROUPED + "tasks=['c']\nuntil='c.ok'\ntimes=2\n[task.c]\nrun='x'\nrepeat=2",
            'j:7:8: task "c" has a repeat of its own',
        ),
        ("task=1", "j:1:1: task: 1 where tables"),
        ("[task.a]\nrun=['" + "x" * 9000 + "']", "j:2:6: run: 'xxx"),
        ("[task.a]\nrun='x'\nretry=100\nrepeat=1000", "j:1:1: up to 101000 attempts"),
        ("\n".join(f"[task.a{n}]\nrun='{'x' * 3000}'" for n in range(20)), "j:1:1: the whole job takes"),
    ],
)
def test_each_mistake_has_its_place_and_says_what_to_do(text: str, said: str) -> None:
    assert any(line.startswith(said) or said in line for line in problems(text)), problems(text)


def test_circles_are_told_once_with_their_whole_way() -> None:
    text = "[task.a]\nrun='x'\nafter=['c']\n[task.b]\nrun='x'\nafter='a'\n[task.c]\nrun='x'\nwhen='b.ok'\n[task.d]\nrun='x'\nafter='a'"
    assert problems(text) == [
        "j:3:8: tasks wait for each other in a circle: a -> c -> b -> a. Take one of these out of its after"
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    told = problems("[task.a]\nrun=1\nafter='b'\nx=2")
    assert [line.split(":")[1] for line in told] == ["2", "3", "4"]


def test_of_very_many_mistakes_the_first_hundred_are_looked_for() -> None:
    tasks = {
        f"t{task}": {"run": ["x"], "after": [f"q{task}-{name}" for name in range(20)]} for task in range(400)
    }
    for table in (tasks, {name: {"run": ["x"], **dict.fromkeys(map(str, range(20)), 1)} for name in tasks}):
        with pytest.raises(BadJob) as raised:
            job_of({"task": table}, folder=Path("/"))
        assert len(raised.value.problems) == PROBLEMS_MAX
        assert str(raised.value).endswith(f"and {PROBLEMS_MAX - SHOWN_MAX} more")
    with pytest.raises(BadJob) as raised:
        job_of(
            {"task": {f"t{task}": {"run": ["x"], "after": ["none"]} for task in range(TASKS_MAX + 1)}},
            folder=Path("/"),
        )
    assert "501 tasks; a job has at most 500" in str(raised.value)
    assert "none" not in str(raised.value)


def test_a_key_of_very_many_parts_is_refused_before_it_is_read() -> None:
    (told,) = problems("\n" + "a." * 20_000 + "a = 1")
    assert told == "j:2:1: a key with more than 100 dots"
    parse_job(f"[task.a]\nrun = 'echo {'.' * 300}'\n", source="j", folder=Path("/"))


def test_a_file_has_its_folder_and_name(tmp_path: Path) -> None:
    file = tmp_path / "My Night.toml"
    file.write_text("[task.a]\nrun='x'")
    job = read_job(file).spec
    assert (job.name, Path(job.folder)) == ("my-night", tmp_path)
    with pytest.raises(BadJob, match="can't be read: No such file"):
        read_job(tmp_path / "none.toml")
    file.write_bytes(b"a=1\n\xff")
    with pytest.raises(BadJob, match=":2:1: not UTF-8 text"):
        read_job(file)


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["ok", "a", "a.ok", "gpu:1", "5s"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["times", "until", "on", "wait", "A"]), below, max_size=3),
    max_leaves=6,
)  # fmt: skip
GROUP = st.dictionaries(st.sampled_from(["tasks", "until", "times", "zz"]), VALUE)
TASK = st.dictionaries(
    st.sampled_from(["run", "needs", "after", "when", "retry", "foreach", "repeat", "timeout", "env", "wait", "on", "zz"]), VALUE
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(["name", "folder", "env", "x"]), VALUE),
    st.dictionaries(st.sampled_from("abcA"), TASK | VALUE),
    st.dictionaries(st.sampled_from("gA"), GROUP | VALUE),
)
def test_no_mapping_breaks_the_reader(
    top: dict[str, object], tasks: dict[str, object], groups: dict[str, object]
) -> None:
    try:
        job = job_of({**top, "task": tasks, "group": groups}, folder=Path("/")).spec
    except BadJob as problem:
        told = problem.problems
    else:
        told = ()
        assert decode_job(encode_job(job)) == job
    assert all(one.text for one in told)


@given(st.text(alphabet="[]task.abrun='x'\n\"{}=,#1 ", max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_job(text, source="j", folder=Path("/"))
    except BadJob as problem:
        told = problem.problems
    else:
        told = ()
    assert all(one.line >= 1 and one.column >= 1 for one in told)
