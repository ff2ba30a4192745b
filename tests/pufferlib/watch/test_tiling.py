import itertools

import pytest

from pufferlib.watch.stage import GAP, tiled


def test_a_picture_that_is_alone_fills_everything():
    tiling = tiled(1, (640, 480), (1600, 960))
    assert (tiling.size, tiling.place(0), tiling.scale) == ((640, 480), (0, 0), 1.0)


def test_one_that_is_too_large_shrinks():
    tiling = tiled(1, (2000, 1000), (1000, 900))
    assert tiling.size == (1000, 500) and tiling.scale == 0.5


@pytest.mark.parametrize("count", [2, 3, 4, 7, 9, 16, 64])
@pytest.mark.parametrize("size", [(640, 480), (300, 900), (1200, 200), (90, 90)])
def test_pictures_lie_inside_and_apart(count, size):
    tiling = tiled(count, size, (1600, 960))
    width, height = tiling.picture
    assert tiling.size[0] <= 1601 and tiling.size[1] <= 961 and tiling.scale <= 1
    assert width / height == pytest.approx(size[0] / size[1])
    places = [tiling.place(index) for index in range(count)]
    for x, y in places:
        assert x >= GAP and y >= GAP
        assert x + width <= tiling.size[0] and y + height <= tiling.size[1]
    for (x, y), (other_x, other_y) in itertools.combinations(places, 2):
        assert abs(x - other_x) >= width or abs(y - other_y) >= height


def test_the_arrangement_shows_pictures_the_largest():
    assert tiled(4, (800, 450), (1600, 960)).columns == 2
    assert tiled(3, (300, 900), (1600, 960)).columns == 3
    assert tiled(3, (1200, 200), (1600, 960)).columns == 1
    assert tiled(6, (100, 100), (1600, 960)).scale == 1.0
