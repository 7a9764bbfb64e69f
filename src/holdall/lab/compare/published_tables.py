"""The figures that the specifications published, and on which workloads they were measured.

Common to all: a message takes 0.5 + Exp(0.5) delays, a hold Exp(5) unless it says otherwise, clients claim in a
closed loop, the first tenth is dropped. Every column is one workload, or several whose ratios are averaged. A cell is
throughput / mean wait / p99 wait / messages per claim, `-` where nothing was published. Sources: common specification,
sections 4.1 and 4.4; chain specification, section 10; history of the lanes, section 3.8; strong and weak
resources, section 6.
"""

from typing import NamedTuple

from holdall.lab.compare.contestants import Contestant, plain
from holdall.simulator.workload import Load, Workload


class Scene(NamedTuple):
    """One workload and how long it runs, in mean message delays."""

    workload: Workload
    duration: float


class Row(NamedTuple):
    """One line of a published table."""

    label: str
    contestant: Contestant
    nodes: int | None
    """Nodes that share the pools; None: as the workload says, one pool each."""
    cells: tuple[str, ...]
    """By column."""


class Table(NamedTuple):
    """One published table; its first row is the baseline."""

    name: str
    source: str
    columns: dict[str, tuple[Scene, ...]]
    rows: tuple[Row, ...]
    absolute: bool = True
    """Its figures are rates and waits; False: they are ratios to the baseline."""


def _chain(passes: int, more: int) -> Contestant:
    return Contestant("chain", "chain", (("passes", passes), ("passes_per_ahead", more)))


NO_LIMIT = 1_000_000
CHAIN = plain("chain")
TRY = Contestant("chain-try", "chain", (("try_from", 1),))
SETTINGS: dict[str, tuple[Contestant, int | None]] = {
    "ordered": (plain("ordered"), None),
    "chain": (CHAIN, None),
    "chain + try": (TRY, None),
    "SW-W /low": (plain("strong-weak"), None),
    "SW-W": (plain("strong-weak-named"), None),
    "SW-P age": (plain("strong-weak-probe"), None),
    "SW-P token": (plain("strong-weak-probe-token"), None),
    "SW-P aged /low": (plain("strong-weak-probe-aged"), None),
    "token list": (plain("token"), None),
    "token tickets": (plain("token-tickets"), None),
    "skeen lanes": (plain("skeen"), None),
    "ballot": (plain("ballot"), None),
    "fast lanes": (plain("lanes"), None),
    "fast lanes + lending": (plain("lanes-lending"), None),
    "game p1 fast": (plain("game"), None),
    "game p2 fast": (plain("game-complete"), None),
    "central": (plain("central"), None),
}
"""The published names, in the project's words."""


def _row(label: str, cells: str, contestant: Contestant | None = None, nodes: int | None = None) -> Row:
    known, default = SETTINGS.get(label, (contestant or CHAIN, nodes))
    return Row(label, contestant or known, nodes or default, tuple(cells.split()))


def _random(pools: int, k: int, units: int, load: Load, **more: float) -> Workload:
    values: dict[str, float] = dict(more)
    return Workload(
        pools=pools, k=k, units=units, load=load, nodes=pools,
        hold=values.get("hold", 5.0), think=values.get("think"), local=values.get("local"),
        clients=int(values["clients"]) if "clients" in values else None,
    )  # fmt: skip


def _duration(pools: int, k: int, units: int) -> float:
    if pools == 8:
        return 4000.0
    return 700.0 if (k, units) == (3, 2) else 1500.0


def _all_of(load: Load) -> tuple[Scene, ...]:
    return tuple(
        Scene(_random(pools, k, units, load), _duration(pools, k, units))
        for pools in (8, 40)
        for k in (2, 3)
        for units in (1, 2)
    )


SUMMARY = Table(
    "summary",
    "common specification, 4.1",
    {load: _all_of(load) for load in ("low", "medium", "saturated")},
    (
        _row("ordered", "1.00/1.00/1.00/7.5 1.00/1.00/1.00/7.5 1.00/1.00/1.00/7.5"),
        _row("SW-P age", "0.95/1.19/1.31/6.3 0.36/3.29/1.54/9.9 0.22/3.89/1.47/15.6"),
        _row("SW-P aged /low", "1.01/0.98/0.91/6.1 1.12/0.89/0.59/6.3 1.23/0.89/0.53/6.3"),
        _row("SW-W", "1.00/1.01/0.96/6.1 0.99/1.07/0.42/6.6 1.09/1.04/0.30/7.1"),
        _row("SW-W /low", "1.02/0.93/0.87/6.1 1.20/0.80/0.42/6.2 1.41/0.77/0.34/6.4"),
        _row("chain", "1.13/0.75/0.65/6.2 1.35/0.73/0.39/6.7 1.63/0.73/0.36/6.9"),
        _row("chain + try", "1.14/0.74/0.65/12.1 1.32/0.74/0.39/13.8 1.62/0.73/0.36/14.2"),
        _row("token tickets", "0.90/1.31/0.76/8.5 0.98/1.11/0.41/8.5 1.10/1.11/0.37/8.5"),
        _row("token list", "0.84/1.62/0.80/5.9 0.96/1.11/0.40/5.9 1.08/1.07/0.34/5.9"),
        _row("skeen lanes", "1.03/0.94/0.65/12.5 1.06/0.99/0.35/12.5 1.25/0.96/0.30/12.5"),
        _row("fast lanes", "1.06/0.83/0.62/11.5 1.07/0.99/0.35/12.5 1.23/0.97/0.31/12.5"),
        _row("fast lanes + lending", "1.06/0.89/0.73/20.9 1.07/0.99/0.38/33.1 1.22/0.98/0.31/35.0"),
        _row("game p1 fast", "1.15/0.71/0.57/28.1 1.37/0.72/0.35/73.1 1.70/0.70/0.29/133.6"),
        _row("game p2 fast", "0.98/1.11/0.83/41.5 1.10/0.95/0.42/122.9 1.30/0.88/0.34/250.4"),
        _row("central", "1.30/0.45/0.48/3.0 2.07/0.38/0.31/3.0 2.88/0.39/0.33/3.0"),
    ),
    absolute=False,
)

GRID: tuple[tuple[int, int, int, Load], ...] = (
    (8, 2, 1, "low"), (8, 2, 1, "medium"), (8, 2, 1, "saturated"), (8, 2, 2, "saturated"), (8, 3, 1, "medium"),
    (8, 3, 1, "saturated"), (8, 3, 2, "saturated"), (40, 2, 1, "medium"), (40, 2, 1, "saturated"),
    (40, 3, 1, "medium"), (40, 3, 1, "saturated"),
)  # fmt: skip


def _thr_p99(label: str, cells: str, contestant: Contestant | None = None, nodes: int | None = None) -> Row:
    """Cells of throughput/p99 alone."""
    whole = (f"{cell.replace('/', '/-/')}/-" if cell != "-" else "-" for cell in cells.split())
    return _row(label, " ".join(whole), contestant, nodes)


SEVERAL_POOLS = Table(
    "several pools a node",
    "chain specification, 10",
    {
        f"{pools} k{k} u{units} {load[:3]}": (Scene(_random(pools, k, units, load), 4000.0 if pools == 8 else 1500.0),)
        for pools, k, units, load in GRID
    },
    (
        _thr_p99("ordered", "0.171/50 0.242/180 0.238/425 0.288/365 0.134/334 0.131/562 0.152/516 0.947/511 0.633/1003 0.458/686 0.330/1334"),
        _thr_p99("chain", "0.178/42 0.290/102 0.306/180 0.359/162 0.166/169 0.166/303 0.199/268 1.267/151 1.321/248 0.667/222 0.657/324"),
        _thr_p99("fast lanes", "0.180/36 0.248/101 0.251/140 0.296/132 0.163/130 0.159/199 0.181/188 0.853/149 0.833/219 0.443/209 0.451/307"),
        _thr_p99("game p1 fast", "- - 0.299/146 - - 0.185/198 - 1.299/124 - - -"),
        _thr_p99("central", "0.189/38 0.380/87 0.457/163 0.565/150 0.253/120 0.273/198 0.342/194 1.867/116 2.242/257 1.251/189 1.412/331"),
        _thr_p99("1 node, passes 0", "0.183/46 0.245/101 0.248/141 0.287/121 0.161/123 0.159/204 0.181/179 0.815/148 0.827/186 0.426/224 0.387/375", _chain(0, 0), 1),
        _thr_p99("1 node, passes 1", "- 0.301/78 0.295/137 0.352/113 0.180/117 0.176/201 0.201/179 1.053/148 1.056/181 0.561/184 0.528/283", _chain(1, 0), 1),
        _thr_p99("1 node, passes 3", "0.190/35 0.349/77 0.362/123 0.426/108 0.215/112 0.206/183 0.231/160 1.458/103 1.383/161 0.632/183 0.573/317", _chain(3, 0), 1),
        _thr_p99("1 node, passes 8", "0.192/31 0.375/81 0.423/135 0.505/113 0.248/120 0.242/175 0.281/167 1.804/96 1.775/173 0.879/176 0.816/237", _chain(8, 0), 1),
        _thr_p99("1 node, passes 16", "- 0.378/82 0.443/147 0.545/121 0.258/121 0.268/178 0.322/161 1.853/111 2.070/216 1.139/146 1.044/255", _chain(16, 0), 1),
        _thr_p99("1 node, passes 8 + 1", "0.192/31 0.379/75 0.450/156 0.554/135 0.253/117 0.272/198 0.337/172 1.831/108 2.159/261 1.187/171 1.302/263", _chain(8, 1), 1),
        _thr_p99("1 node, passes 2 + 2", "- 0.378/82 0.452/154 0.560/135 0.254/121 0.271/200 0.338/185 1.842/114 2.247/227 1.214/186 1.367/294", _chain(2, 2), 1),
        _thr_p99("1 node, passes 8 + 2", "- 0.378/80 0.457/163 0.555/153 0.255/121 0.270/199 0.337/204 1.893/106 2.228/245 1.250/164 1.377/302", _chain(8, 2), 1),
        _thr_p99("1 node, no limit", "0.192/31 0.380/82 0.457/161 0.568/166 0.254/123 0.274/192 0.344/200 1.884/104 2.278/250 1.250/195 1.416/333", _chain(NO_LIMIT, 0), 1),
        _thr_p99("2 nodes, passes 0", "- 0.268/103 0.287/151 0.325/132 0.161/151 0.160/210 0.189/179 1.079/150 0.953/266 0.536/199 0.513/357", _chain(0, 0), 2),
        _thr_p99("2 nodes, passes 3", "- 0.300/97 0.317/154 0.385/136 0.162/150 0.164/214 0.196/193 1.327/122 1.327/200 0.641/192 0.629/284", _chain(3, 0), 2),
        _thr_p99("2 nodes, passes 8 + 2", "- 0.290/98 0.319/157 0.399/136 0.162/150 0.164/214 0.196/198 1.339/126 1.549/194 0.663/181 0.670/283", _chain(8, 2), 2),
        _thr_p99("4 nodes, passes 0", "0.180/43 0.287/97 0.299/170 0.352/136 0.164/167 0.168/260 0.192/234 1.191/124 1.179/252 0.607/186 0.584/362", _chain(0, 0), 4),
        _thr_p99("4 nodes, passes 3", "- 0.291/96 0.301/166 0.371/152 0.163/160 0.170/259 0.194/251 1.348/122 1.320/255 0.689/191 0.653/276", _chain(3, 0), 4),
        _thr_p99("4 nodes, passes 8 + 2", "- 0.289/99 0.308/169 0.373/146 0.163/160 0.170/259 0.194/251 1.321/131 1.419/242 0.682/191 0.658/283", _chain(8, 2), 4),
    ),
)  # fmt: skip

PLACED = Table(
    "claims on one of four nodes, long holds",
    "chain specification, 10",
    {
        "local .8 40 k2 med": (Scene(Workload(pools=40, k=2, nodes=4, load="medium", local=0.8), 1500.0),),
        "local .8 40 k3 sat": (Scene(Workload(pools=40, k=3, nodes=4, load="saturated", local=0.8), 1500.0),),
        "local 1 40 k2 med": (Scene(Workload(pools=40, k=2, nodes=4, load="medium", local=1.0), 1500.0),),
        "local 1 40 k3 sat": (Scene(Workload(pools=40, k=3, nodes=4, load="saturated", local=1.0), 1500.0),),
    },
    (
        _thr_p99("ordered", "0.842/584 0.356/1257 1.070/359 0.594/1081"),
        _thr_p99("fast lanes", "1.040/105 0.516/299 1.169/119 0.713/356"),
        _thr_p99("central", "1.899/112 1.396/317 1.857/108 1.347/268"),
        _thr_p99("4 nodes, passes 0", "1.043/153 0.622/387 1.073/130 0.695/394", _chain(0, 0), 4),
        _thr_p99("4 nodes, passes 3", "1.486/128 0.797/378 1.607/104 0.870/385", _chain(3, 0), 4),
        _thr_p99("4 nodes, passes 8", "1.693/106 0.854/475 1.816/100 1.031/384", _chain(8, 0), 4),
        _thr_p99("4 nodes, passes 8 + 1", "1.699/128 1.070/396 1.856/104 1.323/264", _chain(8, 1), 4),
        _thr_p99("4 nodes, no limit", "1.704/117 1.124/374 1.865/108 1.371/243", _chain(NO_LIMIT, 0), 4),
    ),
)

LONG_HOLDS = Table(
    "holds of 50 delays",
    "common specification, 4.4",
    {
        "8 k2 med": (Scene(_random(8, 2, 1, "medium", hold=50), 10_000.0),),
        "8 k3 sat": (Scene(_random(8, 3, 1, "saturated", hold=50), 10_000.0),),
        "40 k2 sat": (Scene(_random(40, 2, 1, "saturated", hold=50), 10_000.0),),
    },
    (
        _row("ordered", "0.0360/254/1168/6 0.0220/1025/3280/9 0.0910/934/5540/6"),
        _row("SW-W /low", "0.0400/207/725/6 - 0.1740/624/1596/6"),
        _row("chain", "0.0390/210/669/5 0.0240/923/2235/8 0.1800/602/1554/6"),
        _row("token tickets", "0.0320/318/689/7 0.0210/1088/1621/10 0.0960/1197/1828/7"),
        _row("fast lanes", "0.0310/320/763/10 0.0210/1080/1632/15 0.1130/979/1427/10"),
        _row("fast lanes + lending", "0.0400/208/632/18 0.0220/1013/1547/48 0.1470/745/1531/22"),
        _row("game p1 fast", "0.0380/223/678/34 0.0250/895/1578/204 0.1610/681/1686/72"),
    ),
)

LONG_HOLDS_NODES = Table(
    "holds of 50 delays, several pools a node",
    "chain specification, 10",
    LONG_HOLDS.columns,
    (
        _thr_p99("ordered", "0.0332/1312 0.0234/2996 0.0870/5246"),
        _thr_p99("chain", "0.0373/703 0.0253/1843 0.1745/1654"),
        _thr_p99("fast lanes", "0.0283/766 0.0219/1502 0.1120/1540"),
        _thr_p99("game p1 fast", "0.0368/764 0.0261/1404 0.1607/1542"),
        _thr_p99("central", "0.0451/670 0.0384/1623 0.2919/1593"),
        _thr_p99("1 node, passes 0", "0.0282/796 0.0217/1367 0.0921/1822", _chain(0, 0), 1),
        _thr_p99("1 node, passes 3", "0.0413/658 0.0272/1414 0.1775/1347", _chain(3, 0), 1),
        _thr_p99("1 node, passes 8", "0.0441/708 0.0321/1305 0.2286/1321", _chain(8, 0), 1),
        _thr_p99("1 node, passes 8 + 1", "0.0434/768 0.0374/1523 0.2766/1702", _chain(8, 1), 1),
        _thr_p99("1 node, no limit", "0.0441/729 0.0382/1469 0.2864/1952", _chain(NO_LIMIT, 0), 1),
        _thr_p99("4 nodes, passes 3", "0.0357/824 0.0244/1629 0.1797/1596", _chain(3, 0), 4),
        _thr_p99("4 nodes, passes 8 + 1", "0.0353/798 0.0244/1629 0.1825/1480", _chain(8, 1), 4),
        _thr_p99("4 nodes, no limit", "0.0353/798 0.0244/1629 0.1825/1480", _chain(NO_LIMIT, 0), 4),
    ),
)

# What is published of waits is the wide claim's alone, and few: of it only the throughput of all is measured again.
WIDE = Table(
    "one claim wants all pools",
    "chain specification, 10",
    {"wide 8 med": (Scene(Workload(pools=8, k=2, nodes=8, load="medium", wide=True), 4000.0),)},
    (
        _row("ordered", "0.413/-/-/-"),
        _row("chain", "0.446/-/-/-"),
        _row("fast lanes", "0.426/-/-/-"),
        _row("central", "0.562/-/-/-"),
        _row("1 node, passes 0", "0.421/-/-/-", _chain(0, 0), 1),
        _row("1 node, passes 3", "0.454/-/-/-", _chain(3, 0), 1),
        _row("1 node, passes 8", "0.479/-/-/-", _chain(8, 0), 1),
        _row("1 node, passes 16", "0.504/-/-/-", _chain(16, 0), 1),
        _row("1 node, passes 8 + 1", "0.493/-/-/-", _chain(8, 1), 1),
        _row("1 node, passes 8 + 2", "0.502/-/-/-", _chain(8, 2), 1),
        _row("1 node, no limit", "0.565/-/-/-", _chain(NO_LIMIT, 0), 1),
    ),
)


def _ring(pools: int, think: float) -> Workload:
    return Workload(shape="ring", pools=pools, nodes=pools, hold=10.0, think=think)


# How long its runs took is not published. All clients of a saturated ring claim at once and so begin as one convoy, which
# dissolves under ordered very slowly: over 200 pools its throughput is 0.53 after 400 delays, 0.84 after 1500, 1.16 after
# 6000. These durations are those at which ordered alone has its published figure.
RINGS = Table(
    "rings and many sets",
    "history of the lanes, 3.8",
    {
        "ring 50, think 100": (Scene(_ring(50, 100), 3000.0),),
        "ring 50 saturated": (Scene(_ring(50, 0), 1000.0),),
        "ring 200 saturated": (Scene(_ring(200, 0), 400.0),),
        "ring 10 saturated": (Scene(_ring(10, 0), 6000.0),),
        "40 pools, think 60": (
            Scene(Workload(pools=40, nodes=40, k=3, k_least=1, hold=10, think=60, clients=50), 4000.0),
        ),
        "40 pools, think 0": (
            Scene(Workload(pools=40, nodes=40, k=3, k_least=1, hold=10, think=0, clients=50), 4000.0),
        ),
        "400 pools, think 60": (
            Scene(Workload(pools=400, nodes=400, k=4, k_least=1, hold=10, think=60, clients=200), 1500.0),
        ),
        "10 pools of 4 units": (
            Scene(
                Workload(pools=10, nodes=10, units=4, need_most=2, k=3, k_least=1, hold=10, think=20, clients=40),
                4000.0,
            ),
        ),
    },
    (
        _row("ordered", "-/6.9/44/6.4 0.49/96/473/6.3 0.50/-/-/- 0.20/-/-/- -/32/193/- 0.45/-/699/- 2.19/20.8/-/- 0.50/-/242/-"),
        _row("ballot", "-/9.3/41/15.3 1.12/35/108/16.5 4.64/-/-/- 0.21/-/-/- -/46/143/- 0.30/-/551/411 2.05/27.3/-/- 0.018/-/1151/-"),
        _row("skeen lanes", "-/7.2/45/10.7 1.05/38/133/10.9 4.25/-/-/- 0.24/-/-/- -/44/142/- 0.45/-/190/- 1.91/31.1/-/- 0.56/-/80/-"),
        _row("fast lanes", "-/4.9/39/7.4 1.07/37/119/10.8 4.20/-/-/- 0.24/-/-/- -/36/116/- 0.45/-/201/- 2.09/23.4/-/- 0.55/-/93/-"),
        _row("fast lanes + lending", "-/4.8/38/7.8 1.41/25/76/17.2 5.63/-/-/- 0.28/-/-/- -/26/123/- 0.57/-/204/- 2.43/12.4/-/- 0.55/-/106/-"),
        _row("central", "-/4.3/35/3.2 1.96/15/225/3.2 7.77/-/-/- 0.41/-/-/- -/15/96/- 1.01/-/249/- 2.58/8.3/-/- 0.79/-/126/-"),
    ),
)  # fmt: skip

# Published is "hot pool .5", not where the half comes in. As the share of claims it gives throughputs 1.3 to 1.6 times the
# published ones for everybody; as the weight of the pool in each draw, drawn again when both are the same, 10 of 13 claims
# name it.
HOT = 10 / 13

PAIRS = Table(
    "claims of two pools",
    "strong and weak resources, 6",
    {
        "low 8": (Scene(_random(8, 2, 1, "low"), 4000.0),),
        "medium 8": (Scene(_random(8, 2, 1, "medium"), 4000.0),),
        "saturated 8": (Scene(_random(8, 2, 1, "saturated"), 4000.0),),
        "hot pool": (Scene(Workload(shape="hot", pools=8, nodes=8, load="medium", hot=HOT), 4000.0),),
        "sparse 40": (Scene(_random(40, 2, 1, "low"), 4000.0),),
    },
    (
        _row("ordered", "0.173/10.87/48.8/5.99 0.237/47.10/184.4/6.00 0.236/95.84/434.3/6.00 0.130/104.25/177.1/6.00 0.797/15.16/83.0/6.00"),
        _row("SW-P age", "0.173/10.80/48.5/- 0.128/104.77/280.9/- 0.081/289.50/589.2/- 0.103/135.18/367.1/- 0.720/20.42/131.7/-"),
        _row("SW-P token", "0.173/10.71/49.2/- 0.145/90.79/343.4/- 0.080/292.42/1208.0/- 0.100/140.16/550.3/- 0.711/21.43/164.0/-"),
        _row("SW-P aged /low", "0.176/10.10/49.9/- 0.252/43.05/141.3/- 0.270/82.98/286.4/- 0.133/102.09/177.1/- 0.808/14.50/72.1/-"),
        _row("SW-W", "0.177/9.86/46.6/- 0.232/48.56/107.3/- 0.221/102.83/189.1/- 0.136/98.20/160.7/- 0.799/14.92/64.4/-"),
        _row("SW-W /low", "0.174/10.47/44.4/- 0.260/41.15/133.7/- 0.290/76.61/226.9/- 0.133/102.10/177.1/- 0.827/13.35/63.6/-"),
        _row("token tickets", "0.167/12.79/44.4/6.99 0.236/48.14/114.7/6.98 0.238/95.27/149.6/6.99 0.165/77.15/127.0/6.99 0.606/31.05/72.3/7.01"),
        _row("token list", "0.159/14.99/41.1/5.00 0.234/48.21/100.9/5.00 0.248/90.90/149.7/5.00 0.163/78.59/135.6/5.00 0.478/48.77/86.8/5.00"),
    ),
)  # fmt: skip

TABLES = (SUMMARY, SEVERAL_POOLS, PLACED, WIDE, LONG_HOLDS, LONG_HOLDS_NODES, RINGS, PAIRS)
