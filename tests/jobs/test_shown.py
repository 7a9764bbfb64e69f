"""Trees and drawings of jobs: every task is there, with its state, and hostile names are text."""

import xml.etree.ElementTree as ET

from jobs.scripts import GROUP, job

from holdall.jobs.client import JobView
from holdall.jobs.drawing import draw, layout
from holdall.jobs.entries import Granted, Outcome
from holdall.jobs.moves import AttemptEnded, Record
from holdall.jobs.shown import tasks_shown
from holdall.jobs.tree import entry_line, tree_lines
from holdall.model.job_frames import JobRow

JOB = job("""
[task.fetch]
run = "x"
[task.test]
foreach = ["a", "b", "c"]
run = "x"
after = "fetch"
[task.fix]
when = "test.failed"
run = "x"
[task.loop]
after = "fetch"
run = "x"
repeat = { times = 3, until = "ok" }
[task.end]
when = "(test.ok or fix.ok) and loop.ok"
run = "x"
""")
NAMESPACE = "{http://www.w3.org/2000/svg}"


def view() -> JobView:
    made = JobView(JobRow("7K4MQ2" + "0" * 20, "<b>&", "u", 1, "running"), JOB)
    machine = made.machine
    effects = list(machine.begin())
    effects += machine.handle(AttemptEnded("fetch", 1, Outcome("ok", 0)))
    effects += machine.handle(AttemptEnded("test[a]", 1, Outcome("failed", 1, "<script>alert(1)</script>")))
    effects += machine.handle(AttemptEnded("loop", 1, Outcome("failed", 1, "exit status 1")))
    made.log = [one.entry for one in effects if isinstance(one, Record)]
    made.notes = {"test[b]": "2nd of 3 · gpu:1 busy 2/2", "test[c]": "running"}
    units = tuple(f"gpu/{number}@lab-b#7" for number in range(5))
    # Of an attempt that is over nothing is held any more.
    made.grants = {
        "test[c]": Granted("test[c]", 1, "L" * 26, units),
        "loop": Granted("loop", 1, "M" * 26, units),
    }
    return made


def test_the_tree_tells_of_each_task_what_it_does_or_waits_for() -> None:
    assert tree_lines(view()) == [
        "+ fetch      ok",
        ">   test     1 failed, 2 running",
        "      x [a]  failed: <script>alert(1)</script>",
        "      > [b]  2nd of 3 · gpu:1 busy 2/2",
        "      > [c]  running, holds gpu/0@lab-b#7 gpu/1@lab-b#7 gpu/2@lab-b#7 and 2 more",
        ">   loop     begins, round 2 of 3, attempt 2",
        ".     fix    waits for test",
        ".       end  waits for test, fix, loop",
    ]


def test_the_drawing_has_a_box_for_each_task_and_a_line_for_each_order_and_all_names_are_text() -> None:
    root = ET.fromstring(draw(view()))  # noqa: S314 - our own text
    texts = [node.text for node in root.iter(f"{NAMESPACE}text")]
    assert [task.name in " ".join(text or "" for text in texts) for task in JOB.tasks] == [True] * 5
    assert texts[0] == "job <b>&: running"
    assert len(root.findall(f"{NAMESPACE}path")) == sum(len(task.after) for task in JOB.tasks)
    assert {node.tag.removeprefix(NAMESPACE) for node in root.iter()} == {
        "svg", "title", "rect", "defs", "marker", "path", "text", "g",
    }  # fmt: skip
    assert "http" not in draw(view()).replace("http://www.w3.org/2000/svg", "")


def test_each_task_has_a_place_of_its_own_right_of_those_before_it() -> None:
    places = layout(view())
    assert len(set(places.values())) == len(JOB.tasks)
    assert all(places[other][0] < places[task.name][0] for task in JOB.tasks for other in task.after)


def test_entries_are_lines() -> None:
    lines = [entry_line(entry) for entry in view().log]
    assert lines[0] == "fetch  begins attempt 1"
    assert "test[a]  attempt 1 failed: <script>alert(1)</script>" in lines
    assert lines[-1] == "loop  begins attempt 2, round 2"


def test_a_group_is_drawn_as_a_way_back_and_told_with_its_round() -> None:
    row = JobRow(job="J" * 26, name="g", user="u", uid=1, state="running")
    made = JobView(row, GROUP)
    effects = [
        *made.machine.begin(),
        *made.machine.handle(AttemptEnded("a", 1, Outcome("failed", 1, "exit status 1"))),
    ]
    made.log = [one.entry for one in effects if isinstance(one, Record)]
    assert "group g  begins round 2" in [entry_line(entry) for entry in made.log]
    assert tree_lines(made)[0] == "> a    begins, round 2 of 2 of group g, attempt 2"
    assert tree_lines(made)[1] == ".   b  waits for a"
    root = ET.fromstring(draw(made))  # noqa: S314 - our own text
    texts = [node.text for node in root.iter(f"{NAMESPACE}text")]
    assert "g: until b.ok, round 2 of 2" in texts
    assert len(root.findall(f"{NAMESPACE}path")) == 2 + 1
    assert [(one.group, one.round) for one in tasks_shown(made)] == [("g", 2), ("g", 2), ("", 1)]
