import pytest
import torch
from advantage_inputs import PLAIN, random_presence, random_segments, truth
from hypothesis import given, settings, strategies as st

from pufferlib.errors import APIUsageError
from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage

NAMES = ("values", "rewards", "terminals", "ratio", "advantages")
SHAPES = [(1, 1), (1, 2), (3, 7), (8, 64), (9, 65), (16, 66), (257, 31), (13, 131), (0, 5)]

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]


def assert_matches_truth(tensors, constants):
    *inputs, advantages = tensors
    copies = [tensor.clone() for tensor in inputs]
    result = compute_puff_advantage(*inputs, advantages, *constants)
    assert result is advantages
    torch.testing.assert_close(result.double(), truth(inputs, constants), rtol=1e-5, atol=2e-5)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(inputs, copies, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernel_matches_the_float64_loop(shape, device):
    assert_matches_truth(random_segments(shape, seed=0, device=device), (0.99, 0.95, 1.1, 0.9))


@settings(deadline=None, max_examples=60)
@given(
    segments=st.integers(1, 40),
    columns=st.integers(1, 140),
    gamma=st.floats(0, 1),
    gae_lambda=st.floats(0, 1),
    rho_clip=st.floats(0.1, 4),
    c_clip=st.floats(0.1, 1.2),
    terminal_rate=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_kernel_matches_the_loop_for_any_constants(
    segments, columns, gamma, gae_lambda, rho_clip, c_clip, terminal_rate, seed
):
    tensors = random_segments((segments, columns), seed, terminal_rate)
    assert_matches_truth(tensors, (gamma, gae_lambda, rho_clip, c_clip))


# --- absent agents


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("terminal_rate", [0.0, 0.2])
def test_kernel_matches_the_float64_loop_where_agents_are_absent(shape, terminal_rate, device):
    *inputs, advantages = random_segments(shape, seed=7, terminal_rate=terminal_rate, device=device)
    present, constants = random_presence(shape, seed=8).to(device), (0.99, 0.95, 1.1, 0.9)
    result = compute_puff_advantage(*inputs, advantages, *constants, present=present)
    torch.testing.assert_close(result.double(), truth(inputs, constants, present), rtol=1e-5, atol=2e-5)


def own_moves(inputs, present, gamma):
    """One row with the waiting steps taken out: rewards discounted to the move before, and a discount of its own each.

    A plain loop over moves, which knows nothing of columns; it ends at the last own move.
    """
    values, rewards, terminals, ratio = (tensor[0].tolist() for tensor in inputs)
    moves = [t for t in range(len(values)) if present[0, t]]
    found = []
    for move, following in zip(moves, [*moves[1:], len(values)], strict=False):
        reward, discount = 0.0, 1.0
        for t in range(move + 1, min(following, len(values) - 1) + 1):
            reward += discount * rewards[t]
            discount *= gamma * (1 - terminals[t])
        found.append((move, values[move], reward, discount, ratio[move]))
    return found


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**31), columns=st.integers(2, 30), terminal_rate=st.sampled_from([0.0, 0.1, 0.5]))
def test_waiting_steps_count_as_if_only_own_moves_were_there(seed, columns, terminal_rate):
    *inputs, advantages = random_segments((1, columns), seed, terminal_rate)
    present = random_presence((1, columns), seed)
    gamma, gae_lambda, rho_clip, c_clip = 0.9, 0.8, 1.2, 0.9
    result = compute_puff_advantage(*inputs, advantages, gamma, gae_lambda, rho_clip, c_clip, present=present)[0]
    moves = own_moves(inputs, present, gamma)
    advantage, following = 0.0, None
    for move, value, reward, discount, ratio in reversed(moves):
        if following is None and discount:  # the last own move, after which nothing is known
            advantage = 0.0
        else:
            delta = min(ratio, rho_clip) * (reward + discount * (following or 0.0) - value)
            advantage = delta + min(ratio, c_clip) * discount * gae_lambda * advantage
        assert result[move].item() == pytest.approx(advantage, rel=1e-4, abs=1e-5)
        following = value


def test_the_value_of_what_an_agent_did_not_act_on_is_not_read():
    *inputs, advantages = random_segments((30, 20), seed=9, terminal_rate=0.1)
    present = random_presence((30, 20), seed=10)
    before = compute_puff_advantage(*inputs, advantages, *PLAIN, present=present).clone()
    inputs[0][present == 0] = 1e6
    inputs[3][present == 0] = 1e6  # nor the ratio
    assert torch.equal(compute_puff_advantage(*inputs, advantages, *PLAIN, present=present), before)


def test_where_every_agent_is_there_presence_changes_nothing_but_rounding():
    *inputs, advantages = random_segments((9, 40), seed=11)
    plain = compute_puff_advantage(*inputs, advantages, *PLAIN).clone()
    with_presence = compute_puff_advantage(*inputs, advantages, *PLAIN, present=torch.ones(9, 40))
    torch.testing.assert_close(with_presence, plain, rtol=1e-5, atol=1e-5)


def test_a_game_of_turns_by_hand():
    """A move, a wait, a move, a wait in which the game is won; gamma 0.5, lambda 0.5."""
    values, rewards = torch.tensor([[2.0, 99.0, 4.0, 99.0, 99.0]]), torch.tensor([[0.0, 1.0, 2.0, 0.0, 8.0]])
    terminals, ratio = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]]), torch.ones(1, 5)
    present = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0]])
    # The second move is followed by 0 and then, after one discount, by 8: it is worth 4, as its value says. The first
    # one by 1, then 2 after one discount, then by the value 4 after two: 1 + 0.5 * (2 + 0.5 * 4) - 2 = 1.
    result = compute_puff_advantage(
        values, rewards, terminals, ratio, torch.empty(1, 5), 0.5, 0.5, 1.0, 1.0, present=present
    )
    assert result[0, [0, 2]].tolist() == [1.0, 0.0]


def test_a_hand_computed_example():
    values, rewards = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[9.0, 0.5, 1.0]])
    terminals, ratio = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[2.0, 0.5, 7.0]])
    # step 1 ends an episode: 0.5 * (1 - 2) = -0.5; step 0: 1.5 * (0.5 + 0.5 * 2 - 1) + 0.5 * 0.5 * 1 * -0.5
    result = compute_puff_advantage(values, rewards, terminals, ratio, torch.empty(1, 3), 0.5, 0.5, 1.5, 1.0)
    assert result.tolist() == [[0.625, -0.5, 0.0]]


def test_nothing_leaks_past_a_terminal():
    *inputs, advantages = random_segments((4, 20), seed=1, terminal_rate=0.0)
    inputs[2][:, 10] = 1.0
    before = compute_puff_advantage(*inputs, advantages, *PLAIN).clone()
    inputs[0][:, 10:] += 100.0
    inputs[1][:, 11:] -= 50.0
    after = compute_puff_advantage(*inputs, advantages, *PLAIN)
    assert torch.equal(after[:, :10], before[:, :10])
    assert not torch.equal(after[:, 10:], before[:, 10:])


def test_a_gradient_that_needs_advantages_which_were_overwritten_is_refused():
    tensors, weights = random_segments((3, 9), seed=12), torch.ones(3, 9, requires_grad=True)
    loss = (weights * compute_puff_advantage(*tensors, *PLAIN)).sum()
    compute_puff_advantage(*tensors, *PLAIN)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("position", range(4))
def test_a_nan_is_not_hidden(position):
    *inputs, advantages = random_segments((3, 9), seed=2, terminal_rate=0.0)
    inputs[position][1, 5] = torch.nan
    result = compute_puff_advantage(*inputs, advantages, *PLAIN)
    assert result[1, 4:6].isnan().any()
    assert not result[[0, 2]].isnan().any()


def test_the_number_of_threads_does_not_change_the_result():
    tensors = random_segments((2003, 65), seed=3)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            results.append(compute_puff_advantage(*tensors, *PLAIN).clone())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_loop_in_float32_serves_devices_without_a_kernel():
    inputs = random_segments((5, 12), seed=4)
    expected = truth(inputs[:4], PLAIN)
    torch.testing.assert_close(reference_advantage(*inputs[:4], *PLAIN).double(), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.slow
def test_operator_obeys_the_rules_of_torch():
    *inputs, advantages = random_segments((5, 12), seed=5)
    torch.library.opcheck(torch.ops.pufferlib.advantage.default, (*inputs, None, advantages, *PLAIN))


@pytest.mark.slow
def test_operator_compiles_into_one_graph():
    compiled = torch.compile(compute_puff_advantage, fullgraph=True, backend="aot_eager")
    tensors = random_segments((5, 12), seed=6)
    expected = compute_puff_advantage(*tensors, *PLAIN).clone()
    tensors[4].fill_(torch.nan)
    assert torch.equal(compiled(*tensors, *PLAIN), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (lambda tensor: tensor.double(), "must be contiguous float32 .* got contiguous float64"),
        (lambda tensor: tensor.to("meta"), "on meta, got .* on cpu;|on cpu, got .* on meta;"),
        (lambda tensor: tensor.t().contiguous().t(), r"got strided \(1, 4\) float32"),
        (lambda tensor: tensor[:, :5].contiguous(), r"must be .* of shape \(4, [56]\) .*, got"),
        (lambda tensor: tensor[0], r"at least 1 column, got \(6,\)|of shape \(4, 6\) .* of shape \(6,\)"),
    ],
    ids=["dtype", "device", "contiguity", "shape", "dimensions"],
)
def test_an_unfit_tensor_raises(name, spoil, sentence):
    tensors = dict(zip(NAMES, random_segments((4, 6), seed=7), strict=True))
    tensors[name] = spoil(tensors[name])
    with pytest.raises(APIUsageError, match=sentence):
        compute_puff_advantage(*tensors.values(), *PLAIN)


def test_no_columns_raise():
    with pytest.raises(APIUsageError, match="at least 1 column"):
        compute_puff_advantage(*(torch.empty(3, 0) for _ in NAMES), *PLAIN)
