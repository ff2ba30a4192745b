"""The Gaussian process on data of which one knows where it comes from."""

import numpy as np
import pytest

from pufferlib.sweep.proposal import Surrogate


def smooth(features):
    return -((features[:, 0] - 0.4) ** 2) - 0.5 * (features[:, 1] - 0.7) ** 2


def sample(count, seed=0, noise=0.0):
    generator = np.random.default_rng(seed)
    features = generator.random((count, 2))
    return features, smooth(features) + noise * generator.standard_normal(count)


def ranks(values):
    return np.argsort(np.argsort(values))


def agreement(surrogate, truth=smooth):
    """The correlation of the ranks of what is predicted and what is true."""
    features = np.random.default_rng(99).random((500, 2))
    mean, _ = surrogate.predict(features)
    return np.corrcoef(ranks(mean), ranks(truth(features)))[0, 1]


def test_a_smooth_function_is_recovered():
    features, values = sample(40)
    surrogate = Surrogate(features, values, 0)
    others = np.random.default_rng(1).random((200, 2))
    mean, deviation = surrogate.predict(others)
    errors = mean - surrogate.warp(smooth(others))
    assert np.sqrt((errors**2).mean()) < 0.03
    assert (np.abs(errors) < 4 * deviation + 0.01).mean() > 0.97
    assert surrogate.noise < 1e-4


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_noise_is_found(noise):
    features, values = sample(150, noise=noise)
    found = Surrogate(features, values, 0).noise
    expected = noise**2 / values.var()
    assert expected / 2 < found < expected * 2


def test_where_nothing_was_seen_it_is_less_sure():
    features, values = sample(20)
    surrogate = Surrogate(0.5 * features, values, 0)
    _, near = surrogate.predict(0.5 * features)
    _, far = surrogate.predict(np.array([[1.0, 1.0]]))
    assert far[0] > 5 * near.max()


def test_a_feature_that_does_not_matter_does_not_disturb():
    features, values = sample(60)
    idle = np.random.default_rng(5).random((60, 4))
    surrogate = Surrogate(np.column_stack([features, idle]), values, 0)
    mean, _ = surrogate.predict(np.column_stack([features, np.random.default_rng(6).random((60, 4))]))
    assert np.corrcoef(mean, surrogate.warp(values))[0, 1] > 0.97


@pytest.mark.parametrize("unit", [1e-30, 1e-6, 1.0, 1e30])
def test_neither_the_unit_nor_the_offset_matters(unit):
    features, values = sample(30)
    probe = np.random.default_rng(1).random((20, 2))
    expected = Surrogate(features, values, 0).predict(probe)
    np.testing.assert_allclose(Surrogate(features, values * unit, 0).predict(probe), expected, atol=1e-3)
    np.testing.assert_allclose(Surrogate(features, (values + 100) * unit, 0).predict(probe), expected, atol=1e-2)


@pytest.mark.parametrize("diverged", [-1e2, -1e6, -1e20, -1e300])
def test_values_that_are_worse_by_far_do_not_make_the_others_alike(diverged):
    features, values = sample(40)
    values[[3, 17]] = diverged
    assert agreement(Surrogate(features, values, 0)) > 0.8
    is_bad = features[:, 0] > 0.7
    values = np.where(is_bad, diverged * (1 + features[:, 1]), smooth(features))
    assert agreement(Surrogate(features, values, 0), lambda f: np.where(f[:, 0] > 0.7, -9, smooth(f))) > 0.8


def test_a_few_that_are_good_stand_out_from_many_that_are_alike():
    generator = np.random.default_rng(0)
    features = generator.random((60, 2))
    score = np.exp(-20 * ((features - 0.7) ** 2).sum(axis=1))  # nearly 0 almost everywhere
    surrogate = Surrogate(features, score + 0.003 * generator.standard_normal(60), 0)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), axis=-1).reshape(-1, 2)
    mean, _ = surrogate.predict(grid)
    assert np.abs(grid[np.argmax(mean)] - 0.7).max() < 0.1


@pytest.mark.quick("0")
@pytest.mark.parametrize("seed", range(3))
def test_any_values_give_finite_predictions_without_a_warning(seed):
    generator = np.random.default_rng(seed)
    features = generator.random((50, 3))
    plain = generator.standard_normal(50)
    for values in (
        generator.standard_cauchy(50),
        np.exp(20 * plain),
        -np.exp(20 * plain),
        np.round(plain),
        np.arange(50) == 7,
        (plain > 0) * 1.0,
        np.where(plain > 0, 500.0, 500 + 1e-13 * plain),
    ):
        surrogate = Surrogate(features, np.asarray(values, dtype=float), seed)
        for number in (*surrogate.predict(features), surrogate.draw(features, generator), surrogate.noise):
            assert np.isfinite(number).all()
        order = surrogate.warp(np.sort(np.asarray(values, dtype=float)))
        assert (np.diff(order) >= 0).all()


@pytest.mark.parametrize("value", [0.0, 5.0, -1e20])
def test_values_that_are_all_the_same(value):
    features, _ = sample(20)
    surrogate = Surrogate(features, np.full(20, value), 0)
    mean, deviation = surrogate.predict(np.random.default_rng(1).random((50, 2)))
    assert np.abs(mean).max() < 1e-6 and (deviation > 0).all()
    assert surrogate.warp(np.array([value, value + 1])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_same_points_again_and_again(noise):
    features, _ = sample(6)
    features = np.tile(features, (10, 1))
    values = smooth(features) + noise * np.random.default_rng(0).standard_normal(60)
    surrogate = Surrogate(features, values, 0)
    mean, deviation = surrogate.predict(features[:6])
    averages = surrogate.warp(values).reshape(10, 6).mean(axis=0)
    np.testing.assert_allclose(mean, averages, atol=0.15)
    assert (deviation < 0.2).all()


@pytest.mark.parametrize("count", [2, 3])
def test_of_a_few_points_it_says_little(count):
    features, values = sample(count)
    surrogate = Surrogate(features, values, 0)
    mean, deviation = surrogate.predict(np.random.default_rng(1).random((200, 2)))
    assert np.abs(mean).max() < 3
    assert np.median(deviation) > 0.3
    at, sure = surrogate.predict(features)
    np.testing.assert_allclose(at, surrogate.warp(values), atol=0.2)
    assert (sure < 0.2).all()


def test_values_without_any_reason_are_mostly_noise():
    features, _ = sample(120)
    surrogate = Surrogate(features, np.random.default_rng(3).standard_normal(120), 0)
    mean, _ = surrogate.predict(np.random.default_rng(1).random((200, 2)))
    assert surrogate.noise > 0.3
    assert mean.std() < 0.6


def test_believing_makes_it_sure_of_what_it_predicts():
    features, values = sample(12, noise=0.02)
    surrogate = Surrogate(features, values, 0)
    points = np.array([[0.95, 0.05], [0.05, 0.95]])
    before, deviation = surrogate.predict(points)
    believer = surrogate.believing(points)
    mean, sure = believer.predict(points)
    assert (sure < 0.7 * deviation).all()
    np.testing.assert_allclose(mean, before, atol=0.02)
    np.testing.assert_array_equal(surrogate.predict(points), (before, deviation), err_msg="the other one is as it was")
    near, far = np.array([[0.94, 0.06]]), np.array([[0.5, 0.5]])
    assert believer.predict(near)[1] < surrogate.predict(near)[1]
    np.testing.assert_allclose(believer.predict(far)[0], surrogate.predict(far)[0], atol=0.05)
    assert surrogate.believing(np.empty((0, 2))) is surrogate
    assert believer.noise == surrogate.noise


def test_draws_are_of_the_function_and_not_of_each_point():
    features, values = sample(8)
    surrogate = Surrogate(features, values, 0)
    points = np.array([[0.9, 0.1], [0.91, 0.1], [0.1, 0.9], *features[:2]])
    mean, deviation = surrogate.predict(points)
    generator = np.random.default_rng(0)
    draws = np.array([surrogate.draw(points, generator) for _ in range(800)])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4 * deviation.max() / np.sqrt(800))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.15, atol=2e-3)
    correlation = np.corrcoef(draws[:, :3].T)
    assert correlation[0, 1] > 0.98 and abs(correlation[0, 2]) < 0.9
    np.testing.assert_allclose(draws[:, 3:], mean[3:] + np.zeros((800, 2)), atol=6 * deviation[3:].max())


def test_the_same_seed_gives_the_same_result_and_many_points_are_no_different():
    features, values = sample(400, noise=0.03)
    first, again, other = (Surrogate(features, values, seed) for seed in (0, 0, 1))
    probe = np.random.default_rng(1).random((50, 2))
    np.testing.assert_array_equal(first.predict(probe), again.predict(probe))
    assert not np.array_equal(first.predict(probe), other.predict(probe)), "the kernel comes from others of the points"
    assert agreement(first) > 0.97
    assert 0.5 < first.noise / (0.03**2 / values.var()) < 3
