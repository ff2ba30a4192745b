"""The most crossings of freeway that any player could make, who knows all traffic in advance.

    python bench/freeway_bound.py [--episodes 4]

Prints the mean for each level. A search over time and place goes through every way of walking, being hit included, and
may choose anew in every frame where a player of the game chooses every fourth, so that it is a bound for all policies.
The traffic is written down a second time here, as in tests/ocean/test_freeway.py.
"""

from __future__ import annotations

import argparse

import numpy as np

FRAMES, LANES = 8160, 10
PIXEL, UNIT = 60, 15  # 60ths of a pixel; all places are multiples of the unit
STEP, LANE, THROW = 3, 64, 4  # units: of walking in a frame, of a lane, of being thrown back in a frame
HEIGHT, LOOP = 720, 184 * PIXEL
SPEEDS = np.array([12, 15, 20, 30, 60, 60, 30, 20, 15, 12])
RANDOM_SPEEDS = [12, 15, 20, 30, 60]
CHICKEN_WIDTH, CHICKEN_HEIGHT, CAR_HEIGHT = 6 * PIXEL, 8 * PIXEL, 10 * PIXEL
PAIRS = [[0], [0, 24], [0], [0, 70], [0], [0], [0, 70], [0], [0, 24], [0]]
MORE = [[0, 60], [0, 24, 90], [0, 60], [0, 20, 40], [0, 70], [0, 70], [0, 20, 40], [0, 60], [0, 24, 90], [0, 60]]
TRUCKS = [[0, 70], [0, 20, 40], [0], [0, 30, 90], [0, 50, 100], [0, 50, 100], [0, 30, 90], [0], [0, 20, 40], [0, 70]]
TRAFFIC = [[[0]] * LANES, PAIRS, MORE, TRUCKS]
TRUCK_LANES = (0, 2, 7, 9)


def traffic(level: int, rng: np.random.Generator) -> np.ndarray:
    """Whether a vehicle is in the chicken's way, `(FRAMES + 1, LANES)`, in one episode."""
    kind = (level - 1) % len(TRAFFIC)
    lengths = [22 if kind == 3 and lane in TRUCK_LANES else 12 for lane in range(LANES)]
    passed, speeds, left = rng.integers(0, LOOP, LANES), SPEEDS.copy(), 60 + rng.integers(0, 181, LANES)
    occupied = np.zeros((FRAMES + 1, LANES), bool)
    for frame in range(1, FRAMES + 1):
        passed = (passed + speeds) % LOOP
        for lane in range(LANES):
            span = lengths[lane] * PIXEL + CHICKEN_WIDTH
            occupied[frame, lane] = any((passed[lane] - behind * PIXEL) % LOOP < span for behind in TRAFFIC[kind][lane])
        if level > len(TRAFFIC) and frame % 4 == 0:
            left -= 4
            for lane in np.flatnonzero(left <= 0):
                left[lane], speeds[lane] = 60 + rng.integers(0, 181), rng.choice(RANDOM_SPEEDS)
    return occupied


def most_crossings(occupied: np.ndarray) -> int:
    """Of an episode with this traffic."""
    places = np.arange(HEIGHT) * UNIT
    bottoms = (10 + 16 * np.arange(LANES) + 3) * PIXEL  # of the vehicles
    reaches = (places[:, None] < bottoms + CAR_HEIGHT) & (places[:, None] + CHICKEN_HEIGHT > bottoms)
    # Crossings until a frame, by place; -1 where the chicken cannot be.
    most = np.full((FRAMES + LANE // THROW + 2, HEIGHT), -1, np.int16)
    most[0, 0] = 0
    for frame in range(FRAMES):
        starts = np.flatnonzero(most[frame] >= 0)
        is_hit = (reaches & occupied[frame + 1]).any(1)
        for way in (-STEP, 0, STEP):
            ends = np.maximum(starts + way, 0)
            has_crossed = ends >= HEIGHT
            ends[has_crossed] = 0
            score, hit = most[frame, starts] + has_crossed, is_hit[ends] & ~has_crossed
            np.maximum.at(most[frame + 1], ends[~hit], score[~hit])
            back = np.minimum(ends[hit], LANE)
            np.maximum.at(most, (frame + 1 + -(-back // THROW), ends[hit] - back), score[hit])
    return int(most[FRAMES].max())


def main() -> None:
    """Prints a line for every level, and the mean of all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=4)
    args = parser.parse_args()
    means = []
    for level in range(1, 2 * len(TRAFFIC) + 1):
        rng = np.random.default_rng(level)
        means.append(np.mean([most_crossings(traffic(level, rng)) for _ in range(args.episodes)]))
        print(f"level {level}: {means[-1]:.1f} crossings", flush=True)
    print(f"all levels: {np.mean(means):.1f} crossings")


if __name__ == "__main__":
    main()
