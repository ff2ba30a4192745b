import itertools

import pytest

from pufferlib.watch.stage import GAP, Stage

LIMIT = (1600, 960)


def stage_of(count, size, limit=LIMIT):
    return Stage(size, count, None, limit)


def test_a_picture_that_is_alone_fills_everything():
    stage = stage_of(1, (640, 480))
    assert (stage.size, stage.place(0), stage.picture) == ((640, 480), (0, 0), (640, 480))


def test_one_that_is_too_large_shrinks():
    stage = stage_of(1, (2000, 1000), (1000, 900))
    assert stage.size == stage.picture == (1000, 500)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 9, 16, 64])
@pytest.mark.parametrize("size", [(640, 480), (300, 900), (1200, 200), (90, 90)])
def test_pictures_lie_inside_and_apart(count, size):
    stage = stage_of(count, size)
    width, height = stage.picture
    assert stage.size[0] <= 1601 and stage.size[1] <= 961 and width <= size[0]
    assert width / height == pytest.approx(size[0] / size[1])
    places = [stage.place(index) for index in range(count)]
    for x, y in places:
        assert x >= GAP and y >= GAP
        assert x + width <= stage.size[0] and y + height <= stage.size[1]
    for (x, y), (other_x, other_y) in itertools.combinations(places, 2):
        assert abs(x - other_x) >= width or abs(y - other_y) >= height


@pytest.mark.parametrize(
    ("count", "size", "columns"), [(4, (800, 450), 2), (3, (300, 900), 3), (3, (1200, 200), 1), (6, (100, 100), 3)]
)
def test_the_arrangement_shows_pictures_the_largest(count, size, columns):
    stage = stage_of(count, size)
    assert len({stage.place(index)[0] for index in range(count)}) == columns
    assert stage.picture[0] == min(size[0], (LIMIT[0] - GAP) / columns - GAP)
