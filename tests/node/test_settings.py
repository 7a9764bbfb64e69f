"""Configuration files: what they may say, and that each mistake is refused with its place and the next step."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model.errors import BadConfig
from holdall.node.configured import BusSettings
from holdall.node.settings import load_settings, parse_settings, read_settings

WHOLE = """
[node]
name = "lab-1"
listen = "127.0.0.1:7420"
state = "/tmp/hd-state"
location = "prague"

[defaults]
ttl = "20s"
wait = "inf"
protocol = "chain"
ttl_max = "4m"
margin = "0.2s"
passes = 5
passes_per_ahead = 0
durability = "power"

[[pool]]
name = "gpu"
units = ["0", "1"]
labels = { model = "a100", mem = "80G" }
reach = "host"
max_for = "8h"
cooldown = "5s"

[[pool]]
name = "psu"
count = 3
on_grant = "labctl on {unit}"
on_release = "labctl off {unit} && echo ${HOME} {print}"
check = "labctl ping {unit} --fence {fence} --lease {lease} --pool {pool}"
hook_limit = "10s"
"""


def test_a_whole_file_is_read_as_written() -> None:
    settings = parse_settings(WHOLE)
    assert settings.name == "lab-1"
    assert settings.node.listen == ("127.0.0.1", 7420)
    assert settings.socket == Path("/tmp/hd-state/holdall.sock")
    assert not settings.node.system
    defaults = settings.defaults
    assert (defaults.ttl_ms, defaults.wait_ms, defaults.ttl_max_ms) == (20_000, None, 240_000)
    assert (defaults.passes, defaults.passes_per_ahead, defaults.durability) == (5, 0, "power")
    assert defaults.quarantine_ms == 244_800
    gpu, psu, turn = settings.pool_specs()
    assert (turn.name, turn.units) == ("location.turn", ("turn",))
    assert gpu.pool == "gpu{mem=80G,model=a100}"
    assert (gpu.units, gpu.reach, gpu.max_for_ms, gpu.cooldown_ms) == (("0", "1"), "host", 28_800_000, 5000)
    assert (psu.units, psu.hook_limit_ms, psu.max_for_ms) == (("0", "1", "2"), 10_000, None)
    assert psu.on_release == "labctl off {unit} && echo ${HOME} {print}"


def test_an_empty_file_has_the_documented_defaults() -> None:
    settings = parse_settings("", state=Path("/tmp/hd-x"))
    assert (settings.defaults.ttl_ms, settings.defaults.ttl_max_ms) == (30_000, 300_000)
    assert (settings.defaults.passes, settings.defaults.passes_per_ahead) == (8, 1)
    assert settings.defaults.durability == "process"
    assert settings.pools == ()


def test_a_node_without_bus_has_none_and_the_files_of_one_lie_beside_the_configuration(
    tmp_path: Path,
) -> None:
    def bus(text: str) -> BusSettings | None:
        return parse_settings(text, path=tmp_path / "lab.toml").bus

    assert bus("") is None
    assert bus("[bus]") == BusSettings()
    assert bus('[bus]\nlisten = "[::1]:4222"\nserver = "bin/nats-server"') == BusSettings(
        listen=("::1", 4222), server=tmp_path / "bin" / "nats-server"
    )
    assert bus('[bus]\nlisten = "10.0.0.7:4222"\nadvertise = ["lab-1.example.org"]') == BusSettings(
        listen=("10.0.0.7", 4222), advertise=("lab-1.example.org",)
    )
    assert bus('[bus]\nservers = ["nats://a:4222", "tls://b:4223"]\ncreds = "/etc/x.creds"') == BusSettings(
        servers=("nats://a:4222", "tls://b:4223"), creds=Path("/etc/x.creds")
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "not TOML"),
        ("[node]\nnam = 'a'", ':2: [node] unknown key "nam". Did you mean "name"?'),
        ("[nod]\nname = 'a'", ':1: unknown key "nod". Did you mean "node"?'),
        ("\n[[grant]]\nwho = 'x'", ':2: "grant" is not available in this version'),
        ("[[rule]]\n", '"rule" is not available in this version'),
        ("[[capacity]]\nname = 'net'", 'must have its unit, e.g. "100kB/s"'),
        ("[bus]\nlisen = 'x'", ':2: [bus] unknown key "lisen". Did you mean "listen"?'),
        ("[bus]\nlisten = '4222'", "must be ADDRESS:PORT"),
        ("[bus]\nlisten = 'lab-1:4222'", "is no IP address"),
        ("[bus]\nlisten = '0.0.0.0:65534'", "the two ports after it are used, too; take 1 to 65533"),
        ("[bus]\nlisten = '0.0.0.0:0'", "take 1 to 65533"),
        ("[bus]\nservers = []", "servers is empty"),
        ("[bus]\nservers = 'nats://a:1'", "must be a list of texts"),
        ("[bus]\nservers = ['a:4222']\ncreds = 'x'", "must be nats://HOST:PORT"),
        ("[bus]\nservers = ['nats://a:99999']\ncreds = 'x'", "must be nats://HOST:PORT"),
        ("[bus]\nsystem = 'x'", "system is for a cluster that somebody else runs"),
        ("[bus]\nservers = ['nats://a:4222']\nsystem = 'A b'", "must be letters a-z"),
        ("[bus]\nadvertise = ['10.0.0.7']", "give listen, too"),
        ("[bus]\nlisten = '0.0.0.0:1'\nadvertise = ['10.0.0.7:1']", "without a port"),
        ("[bus]\nservers = ['nats://a:4222']\ncreds = ''", "creds is empty"),
        ("[bus]\ncreds = 'x'", "give its servers, too"),
        ("[bus]\nlisten = '0.0.0.0:1'\nservers = ['nats://a:4222']\ncreds = 'x'", "exclude each other"),
        ("[bus]\nserver = 'x'\nservers = ['nats://a:4222']\ncreds = 'x'", "leave it out beside servers"),
        ("bus = 3", "bus must be a table"),
        ("[http]\nanonymous = 'all'", 'none of "none", "see"'),
        ("[http]\nanonymus = 'see'", 'Did you mean "anonymous"?'),
        ("[http]\nhosts = ['Lab 1']", "must be a host name in lower case"),
        ("[http]\ncertificate = 'x.pem'", "certificate and key belong together"),
        ("[http]\ncertificate = 'x.pem'\nkey = 'y.pem'", "there is no file"),
        ("[defaults]\nprotocol = 'paxos'", '"chain", '),
        ("[defaults]\nprotocol = 'chian'", 'Did you mean "chain"?'),
        ("[defaults]\nttl = 0", "ttl = 0 must be between 1s and 300s"),
        ("[defaults]\nttl = '1y'", "is not a duration"),
        ("[defaults]\nttl = '10m'", "must be between 1s and 300s"),
        ("[defaults]\nttl_max = '2d'", "must be between"),
        ("[defaults]\npasses = -1", "must lie between 0 and"),
        ("[defaults]\npasses = true", "must be a whole number"),
        ("[defaults]\ndurability = 'high'", 'none of "process", "power"'),
        ("[node]\nname = 'Lab 1'", "is no node name"),
        ("[node]\nlisten = '0.0.0.0:7420'", "only loopback"),
        ("[node]\nlisten = '7420'", "must be ADDRESS:PORT"),
        ("[node]\nlisten = '127.0.0.1:99999'", "must be ADDRESS:PORT"),
        ("[node]\nlisten = 'example.org:80'", "is no IP address"),
        ("[node]\nstate = '/tmp/" + "x" * 120 + "'", "shorter path"),
        ("node = 3", "node must be a table"),
        ("pool = 3", "must be written as [[pool]]"),
        ("[[pool]]\ncount = 1", "is no pool name"),
        ("[[pool]]\nname = 'a'", "either units"),
        ("[[pool]]\nname = 'a'\ncount = 1\nunits = ['x']", "either units"),
        ("[[pool]]\nname = 'a'\ncount = 0", "must lie between 1 and"),
        ("[[pool]]\nname = 'a'\nunits = []", "units is empty"),
        ("[[pool]]\nname = 'a'\nunits = ['a b']", "is no unit name"),
        ("[[pool]]\nname = 'a'\nunits = ['x', 'x']", 'unit "x" of pool a is named twice'),
        ("[[pool]]\nname = 'a'\nunits = [1]", "must be a list of texts"),
        ("[[pool]]\nname = 'a'\ncount = 1\n[[pool]]\nname = 'a'\ncount = 1", ":5: [[pool]]"),
        ("[[pool]]\nname = 'a'\ncount = 1\n[[pool]]\nname = 'a'\ncount = 1", "is defined twice"),
        (
            "[[pool]]\nname = 'a'\ncount = 1\n[[pool]]\nname = 'a'\ncount = 1\nlabels = { x = 'y' }",
            'unit "0" of pool a is named twice',
        ),
        (
            "[[pool]]\nname = 'g.u'\ncount = 1\n[[pool]]\nname = 'g-u'\ncount = 1",
            "map to one variable, HOLDALL_UNITS_G_U",
        ),
        ("[[pool]]\nname = 'a'\ncount = 1\nreach = 'hosts'", 'Did you mean "host"?'),
        ("[[pool]]\nname = 'a'\ncount = 1\nlabels = { x = 1 }", "must be a table of texts"),
        ("[[pool]]\nname = 'a'\ncount = 1\nlabels = { x = 'a,b' }", "label x"),
        ("[[pool]]\nname = 'a'\ncount = 1\ncheck = 'ping {unti}'", "Did you mean {unit}?"),
        ("[[pool]]\nname = 'a'\ncount = 1\ncooldown = 'inf'", "must be at least 0s"),
        ("[[pool]]\nname = 'a'\ncount = 1\nhook_limit = '2h'", "must be between"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_what_to_write(text: str, said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse_settings(text)
    assert said in refused.value.text
    assert refused.value.text.startswith("holdall.toml")
    assert refused.value.exit_status == 78


def test_files_that_cannot_be_read_name_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="holdall init"):
        read_settings(tmp_path / "missing.toml")
    with pytest.raises(BadConfig, match="can't read"):
        read_settings(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig, match="not UTF-8"):
        read_settings(binary)


def test_a_relative_state_folder_lies_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "holdall.toml"
    file.write_text('[node]\nstate = "st"\n')
    assert read_settings(file).state == tmp_path / "st"
    assert load_settings(file, state=Path("/tmp/other")).state == Path("/tmp/other")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    refused = ""
    try:
        parse_settings(text)
    except BadConfig as error:
        refused = error.text
    assert refused == "" or refused.startswith("holdall.toml")


@given(
    st.dictionaries(
        st.sampled_from(["name", "units", "count", "labels", "reach", "max_for", "cooldown", "check"]),
        st.one_of(
            st.integers(), st.booleans(), st.floats(allow_nan=False), st.text("abc0-{}\\'", max_size=9)
        ),
    )
)
def test_any_pool_is_read_or_refused(values: dict[str, object]) -> None:
    lines = ["[[pool]]"]
    for key, value in values.items():
        if isinstance(value, str):
            shown = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        else:
            shown = str(value).lower()
        lines.append(f"{key} = {shown}")
    refused = ""
    try:
        assert parse_settings("\n".join(lines)).pools[0].units
    except BadConfig as error:
        refused = error.text
    assert refused == "" or refused.startswith("holdall.toml")


@pytest.mark.parametrize(
    "text",
    [
        '[[pool]]\nname = "location.turn"\ncount = 1\n',
        '[node]\nlocation = "prague"\n[[capacity]]\nname = "location.turn"\namount = "1kB/s"\n',
    ],
)
def test_the_pool_that_nodes_of_a_location_have_by_themselves_is_not_configured(text: str) -> None:
    with pytest.raises(BadConfig, match=r"location\.turn.*is taken"):
        parse_settings(text)
