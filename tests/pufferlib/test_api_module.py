"""Scripts of users who write a configuration, as they write them; only the sizes are small."""

import gymnasium
import numpy as np
import pytest
import torch

from pufferlib import pufferl
from pufferlib.errors import ConfigError, PufferError

pytestmark = pytest.mark.usefixtures("in_tmp_path")

STEPS = 4_096


def small_args():
    args = pufferl.load_config("puffer_breakout")
    args["vec"]["num_envs"] = 2
    args["env"]["num_envs"] = 16
    args["policy"]["hidden_size"] = 16
    args["rnn"]["input_size"] = 16
    args["rnn"]["hidden_size"] = 16
    args["train"]["total_timesteps"] = STEPS
    args["train"]["learning_rate"] = 0.03
    args["train"]["device"] = "cpu"
    return args


def test_a_loop_of_ones_own(capsys):
    args = small_args()
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_breakout"}, vecenv, policy)
    while trainer.global_step < STEPS:
        trainer.evaluate()
        logs = trainer.train()
        trainer.print_dashboard()
    model_path = trainer.close()

    assert "puffer_breakout" in capsys.readouterr().out
    names = "policy_loss value_loss entropy old_approx_kl approx_kl clipfrac importance explained_variance"
    assert set(names.split()) <= logs.keys()
    assert trainer.global_step == STEPS and trainer.epoch == trainer.total_epochs == 2
    assert trainer.sps > 0 and trainer.uptime > 0
    assert model_path.endswith("model_puffer_breakout_000002.pt")
    assert torch.load(model_path, weights_only=True).keys() == policy.state_dict().keys()

    for path in (model_path, "latest"):
        args["load_model_path"] = path
        vecenv = pufferl.load_env("puffer_breakout", args)
        again = pufferl.load_policy(args, vecenv, "puffer_breakout")
        vecenv.close()
        assert all(torch.equal(*pair) for pair in zip(again.parameters(), policy.parameters(), strict=True))


def test_what_a_script_of_pufferlib_3_reads_of_the_trainer():
    args = small_args()
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL(args["train"], vecenv, policy)
    assert trainer.stats == {} and trainer.losses == {}
    assert trainer.stats == trainer.evaluate() == trainer.stats
    segments, horizon = trainer.segments, trainer.config.bptt_horizon
    assert segments * horizon == trainer.config.batch_size
    assert trainer.observations.shape == (segments, horizon, *vecenv.single_observation_space.shape)
    assert trainer.actions.shape == (segments, horizon)
    for name in ("logprobs", "values", "rewards", "ratio"):
        assert getattr(trainer, name).shape == (segments, horizon) and getattr(trainer, name).dtype is torch.float32
    for name in ("terminals", "truncations"):
        assert getattr(trainer, name).shape == (segments, horizon) and getattr(trainer, name).dtype is torch.bool
    assert (trainer.ratio == 1).all()
    assert trainer.observations.data_ptr() == trainer.rollout.observations.data_ptr()  # a view
    assert trainer.train() == trainer.losses
    assert trainer.total_minibatches == args["train"].get("update_epochs", 1) * (
        trainer.config.batch_size // trainer.config.minibatch_size
    )
    assert trainer.optimizer.param_groups[0]["lr"] > 0
    trainer.release()


def test_the_names_that_policies_of_pufferlib_3_import():
    import pufferlib.ocean
    import pufferlib.pytorch

    env = pufferlib.ocean.env_creator("puffer_squared")(num_envs=3)
    layer = pufferlib.pytorch.layer_init(torch.nn.Linear(env.single_observation_space.shape[0], 5), std=0.01)
    assert (layer.bias == 0).all() and layer.weight.abs().max() <= 0.01
    observations, _ = env.reset(0)
    action, logprob, entropy = pufferlib.pytorch.sample_logits(layer(torch.from_numpy(observations).float()))
    assert action.shape == logprob.shape == entropy.shape == (3,)
    dtype = pufferlib.pytorch.nativize_dtype(env.emulated)
    rows = torch.from_numpy(observations)
    assert torch.equal(pufferlib.pytorch.nativize_tensor(rows, dtype), rows)
    assert pufferlib.pytorch.numpy_to_torch_dtype_dict[observations.dtype] is rows.dtype
    env.close()


def test_structured_observations_come_apart_as_in_pufferlib_3():
    import pufferlib.emulation
    import pufferlib.pytorch

    class Pair(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"near": gymnasium.spaces.Box(0, 1, (2,)), "kind": gymnasium.spaces.Discrete(4)}
        )
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return {"near": np.float32([0.25, 0.5]), "kind": 3}, {}

    env = pufferlib.emulation.GymnasiumPufferEnv(env_creator=Pair)
    observations, _ = env.reset(0)
    dtype = pufferlib.pytorch.nativize_dtype(env.emulated)
    parts = pufferlib.pytorch.nativize_tensor(torch.from_numpy(observations), dtype)
    assert parts["near"].tolist() == [[0.25, 0.5]] and parts["kind"].tolist() == [3]


@pytest.mark.parametrize("name", ["WandbLogger", "NeptuneLogger"])
def test_loggers_are_names_of_the_module(name):
    import pufferlib

    assert getattr(pufferl, name) is getattr(pufferlib, name)
    with pytest.raises(PufferError, match=f"project must be text, got a dict; write {name}|is not installed"):
        getattr(pufferl, name)({"wandb_project": "pufferlib"})


def test_the_train_section_alone_and_the_logger_by_position():
    args = small_args()
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL(args["train"], vecenv, policy, None)
    stats = trainer.evaluate()
    trainer.train()
    path = trainer.save_checkpoint()
    trainer.close()
    assert isinstance(stats, dict) and path.startswith("experiments/")


def test_the_arguments_of_the_configuration_form_have_names():
    args = small_args()
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL(config=args["train"], vecenv=vecenv, policy=policy, logger=None)
    assert trainer.vecenv is vecenv and trainer.policy is policy and trainer.config.learning_rate == 0.03
    trainer.release()


def test_the_whole_loop_in_one_call(capsys):
    args = small_args()
    args["train"]["log_interval"] = 1
    args["train"]["num_iterations"] = 5
    logs = pufferl.train("puffer_breakout", args)
    assert [log["epoch"] for log in logs] == [1, 2, 3, 4, 5]
    assert "saved experiments/puffer_breakout_" in capsys.readouterr().out


def test_the_first_line_has_the_steps_as_a_whole_number(capsys):
    args = small_args()
    args["train"]["total_timesteps"] = 4e3 + args["env"]["num_envs"] * 1e3
    pufferl.train("puffer_breakout", args)
    steps = int(args["train"]["total_timesteps"])
    assert f"training puffer_breakout for {steps:,} steps, in " in capsys.readouterr().out


@pytest.mark.slow
def test_the_logs_of_the_whole_loop_do_not_depend_on_absent_agents():
    flags = ["--env.opponent", "self", "--env.num-envs", "4", "--train.bptt-horizon", "8", "--train.log-interval", "1"]
    flags += ["--train.minibatch-size", "auto", "--train.num-iterations", "10", "--train.final-episodes", "0"]
    logs = pufferl.train("puffer_connect4", pufferl.load_config("puffer_connect4", flags))
    assert [log["epoch"] for log in logs] == [2, 3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("mode", ["max-autotune-no-cudagraphs", "default"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_compile_and_precision_are_settings(mode, precision):
    args = small_args()
    args["train"].update(compile=True, compile_mode=mode, precision=precision, device="auto")
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL(args["train"], vecenv, policy)
    assert (trainer.config.compile_mode, trainer.config.precision) == (mode, precision)
    trainer.release()


class _Branching(torch.nn.Module):
    """What it computes depends on what it sees, and on how often it was called."""

    def __init__(self, by_calls):
        super().__init__()
        self.layer, self.by_calls, self.calls = torch.nn.Linear(118, 4), by_calls, 0

    def forward(self, observations):
        self.calls += 1
        outputs = self.layer(observations.float())
        if self.calls == 10**6 if self.by_calls else outputs.sum().item() > 1e9:
            outputs = -outputs
        return outputs[:, :3], outputs[:, 3]


@pytest.mark.slow
@pytest.mark.parametrize("by_calls", [False, True])
def test_a_policy_that_cannot_be_compiled_is_told_by_its_setting(by_calls):
    args = small_args()
    vecenv = pufferl.load_env("puffer_breakout", args)
    args["train"].update(compile=True, compile_mode="default", minibatch_size=256)
    trainer = pufferl.PuffeRL(args["train"], vecenv, _Branching(by_calls))
    with pytest.raises(ConfigError, match="compile_fullgraph or compile"):
        for _ in range(10):
            trainer.evaluate(), trainer.train()
    trainer.release()


def test_the_advantage_is_a_function_of_the_module():
    values, rewards, terminals = (torch.zeros(1, 3) for _ in range(3))
    ratio, advantages = torch.ones(1, 3), torch.empty(1, 3)
    rewards[0, 1] = 1.0
    rewards[0, 2] = 1.0
    pufferl.compute_puff_advantage(values, rewards, terminals, ratio, advantages, 0.5, 1.0, 1.0, 1.0)
    np.testing.assert_allclose(advantages[0], [1.5, 1.0, 0.0])
