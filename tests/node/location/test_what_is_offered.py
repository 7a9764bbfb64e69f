"""`[[capacity]]`, `[[function]]`, `[location]` and `[policy]`: read strictly, made into a template, all on their page."""

import re
from pathlib import Path

import pytest

from holdall.model.errors import BadConfig
from holdall.model.terms import Durations, TemplateTerm
from holdall.node.location.configured import (
    CapacitySettings,
    FunctionSettings,
    NegotiationSettings,
    PolicySettings,
)
from holdall.node.location.offering import location_parts_of
from holdall.node.process import Process
from holdall.node.settings import parse_settings
from holdall.parties.location.parts import Divided

AT = '[node]\nname = "a"\nlocation = "prague"\n'
PROCESS = Process(pid=1, uid=1000, number=7)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "configuration.md"


def test_the_template_has_what_the_file_says() -> None:
    settings = parse_settings(
        AT
        + '[[pool]]\nname = "gpu"\ncount = 2\nlabels = { mem = "40G" }\n'
        + '[[pool]]\nname = "gpu"\nunits = ["x"]\n'
        + '[[capacity]]\nname = "net.tx"\namount = "400kbit/s"\nstep = "100B/s"\nmin = "1kB/s"\n'
        + '[[capacity]]\nname = "mem"\namount = "4GiB"\nsharing = "first"\n'
        + '[[capacity]]\nname = "cpu"\namount = "8cpu"\n'
        + '[[function]]\nname = "cpu.arch"\nvalues = ["arm64", "x86"]\n'
        + '[[function]]\nname = "service.db"\n'
        + '[location]\nduration = "30s"\nduration_max = "10m"\nstay_max = "2h"\noffer = "5s"\n'
    )
    parts = location_parts_of(settings, PROCESS)
    assert parts.terms == {
        "gpu": TemplateTerm("pool", max=3),
        "net.tx": TemplateTerm("capacity", "B/s", min=1000, max=50_000, step=100, sharing="fair"),
        "mem": TemplateTerm("capacity", "B", min=1, max=4 * 1024**3, sharing="first"),
        "cpu": TemplateTerm("capacity", "mcpu", min=1, max=8000, sharing="fair"),
        "cpu.arch": TemplateTerm("function", values=("arm64", "x86")),
        "service.db": TemplateTerm("function", values=(True,)),
        "stay": TemplateTerm("time", max=7_200_000),
    }
    assert parts.capacities == {
        "net.tx": Divided(50_000, 100, "fair"),
        "mem": Divided(4 * 1024**3, 1, "none"),
        "cpu": Divided(8000, 1, "fair"),
    }
    assert parts.duration == Durations(500, 600_000, 30_000)
    assert (parts.offer_ms, parts.uid, parts.seed) == (5000, 1000, 7)


def test_a_node_in_no_location_offers_nothing() -> None:
    parts = location_parts_of(parse_settings('[[pool]]\nname = "gpu"\ncount = 1\n'), PROCESS)
    assert (parts.location, parts.terms) == ("", {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[capacity]]\nname = "n"\namount = "5"', ':6: [[capacity]] amount = "5" must have its unit'),
        ('[[capacity]]\nname = "n"\namount = "5KB/s"', "can be read in more than one way"),
        ('[[capacity]]\nname = "n"\namount = "5 gpu"', "must have its unit"),
        ('[[capacity]]\nname = "n"\namount = 5', "must be text in quotes"),
        ('[[capacity]]\nname = "n"\namount = "5B"\nstep = "6B"', "is less than step or min"),
        ('[[capacity]]\nname = "n"\namount = "5B"\nstep = "2B/s"', "step: "),
        ('[[capacity]]\nname = "n"\namount = "5B"\nsharing = "fairly"', 'Did you mean "fair"?'),
        ('[[capacity]]\nname = "N"\namount = "5B"', "names no term"),
        ('[[capacity]]\nname = "stay"\namount = "5B"', '"stay" is taken'),
        ('[[capacity]]\nname = "n"\namount = "5B"\n[[function]]\nname = "n"', '"n" is taken'),
        ('[[pool]]\nname = "n"\ncount = 1\n[[function]]\nname = "n"', '"n" is taken'),
        ('[[function]]\nname = "n"\nvalues = [1]', "write true or words"),
        ('[[function]]\nname = "n"\nvalues = []', "a list of 1 to 10 words"),
        ('[function]\nname = "n"', "must be written as [[function]]"),
        ('[[capacity]]\nname = "n"\namont = "5B"', 'Did you mean "amount"?'),
        ('[location]\nofer = "5s"', 'Did you mean "offer"?'),
        ('[location]\noffer = "500ms"', "between 1s and 60s"),
        ('[location]\nduration = "2h"', "[location] duration"),
        ('[policy]\nfile = ""', "file is empty"),
        ('[policy]\npath = "x"', "[policy] unknown key"),
        ('[policy]\nlimits = "strict"', 'Name their file: location = "FILE"'),
        ('[policy]\nlocation = "x"\nlimits = "firm"', 'none of "reported", "strict"'),
        (
            "".join(f'[[function]]\nname = "n{n}"\n' for n in range(31)),
            "31 capacities and functions; at most 30",
        ),
    ],
)
def test_a_mistake_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse_settings(AT + text)
    assert said in refused.value.text


def test_what_is_offered_needs_a_location() -> None:
    with pytest.raises(BadConfig, match='write location = "NAME" below'):
        parse_settings('[[capacity]]\nname = "n"\namount = "5B"\n')


def test_the_page_of_the_configuration_has_each_key() -> None:
    section = PAGE.read_text().partition("## What a location offers\n")[2].partition("\n## ")[0]
    listed = {
        name
        for cell in re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    fields = [
        field.removesuffix("_ms")
        for kind in (CapacitySettings, FunctionSettings, NegotiationSettings, PolicySettings)
        for field in kind.__struct_fields__
    ]
    # An amount has its unit in its text, and `min` is a word of Python's.
    assert listed - {"min"} == set(fields) - {"unit", "least"}
