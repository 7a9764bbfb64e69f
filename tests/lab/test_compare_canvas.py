"""What is drawn lies within its figure, whoever is compared, and numbers at an axis don't touch."""

from typing import Any

import pytest

from holdall.lab.compare.canvas import DPI, WIDTH, drawing, legend, new, plain_ticks
from holdall.lab.compare.contestants import contestants
from holdall.lab.compare.look import looks


@pytest.mark.parametrize("count", [1, 5, 13, 15])
@pytest.mark.parametrize("points", [True, False])
def test_every_name_of_a_legend_is_within_the_figure(count: int, *, points: bool) -> None:
    names = sorted((one.name for one in contestants(None)), key=len, reverse=True)[:count]

    def drawn() -> Any:
        figure, _ = new(WIDTH, 4, 1, 2)
        legend(figure, looks(names), names, points=points)
        figure.dpi = DPI
        figure.draw_without_rendering()
        return figure

    figure = drawing(drawn)
    [made] = figure.legends
    assert [text.get_text() for text in made.get_texts()] == names
    for text in made.get_texts():
        place = text.get_window_extent()
        assert 0 <= place.x0 < place.x1 <= figure.bbox.width
    assert made.get_window_extent().x0 >= 0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(2, 900, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]), (3, 4000, [1, 3, 10, 30, 100, 300, 1000, 3000])],
)
def test_over_many_decades_fewer_numbers_stand_at_an_axis(low: int, high: int, expected: list[int]) -> None:
    def drawn() -> Any:
        _, [axis] = new(WIDTH, 4, 1, 1)
        axis.plot([low, high], [0, 1])
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
        return axis

    ticks = drawing(drawn).get_xticks()
    assert [tick for tick in ticks if 1 <= tick <= high * 1.2] == expected
