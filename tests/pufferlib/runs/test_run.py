import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from saved_trainers import ORDER, is_same, recurrent_trainer, run, two_heads, weights
from scripted import ScriptedEnv, episode_length

from pufferlib import pufferl, vector
from pufferlib.errors import DivergedError
from pufferlib.metrics.measures import Moments
from pufferlib.models import Default
from pufferlib.runs import checkpoint

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def spoil_weight(trainer):
    with torch.no_grad():
        trainer.policy.weight[3, 2] = math.nan
    return "the weight 'weight' is nan"


def spoil_optimizer(trainer):
    trainer._learner.optimizer.state[trainer.policy.weight]["exp_avg_sq"][5, 1] = math.inf
    return r"optimizer_state\['weight'\]\['exp_avg_sq'\] is inf"


def spoil_normalizer(trainer):
    trainer._collector.reward_normalizer.moments = Moments(3.0, 1.0, math.nan)
    return r"reward_normalizer\['variance'\] is nan"


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".pt", ".json")}


@pytest.mark.quick("spoil_weight", "spoil_optimizer")
@pytest.mark.parametrize("spoil", [spoil_weight, spoil_optimizer, spoil_normalizer])
def test_what_is_not_finite_is_never_saved(keep, spoil):
    trainer = two_heads(keep, ORDER, normalize_rewards=True)
    run(trainer)
    good = trainer.save_checkpoint()
    trainer.save_checkpoint("stage.pt")
    before, stage = files(trainer.run_folder), Path("stage.pt").read_bytes()
    found = spoil(trainer)
    words = f"{found}, so nothing was saved; the last good checkpoint, {good}, is kept$"
    for path in (None, "stage.pt", "new.pt"):
        with pytest.raises(DivergedError, match=words):
            trainer.save_checkpoint(path)
    with pytest.raises(DivergedError, match=words):
        trainer.close()
    assert not trainer.vecenv.is_open
    assert trainer.close() == good
    assert files(trainer.run_folder) == before and not Path("new.pt").exists()
    assert Path("stage.pt").read_bytes() == stage


def test_a_trainer_that_never_saved_says_so(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    spoil_weight(trainer)
    with pytest.raises(DivergedError, match="so nothing was saved; there is no earlier checkpoint of this run$"):
        trainer.save_checkpoint()


def test_weights_that_are_not_finite_are_never_the_best(keep):
    trainer = two_heads(keep, ORDER, total_timesteps=640, evaluations=10, eval_env="puffer_squared")
    run(trainer, 2)
    before = files(trainer.run_folder)
    learn = trainer._learner.learn

    def diverge(*arguments):
        losses = learn(*arguments)
        spoil_weight(trainer)  # as where processes look at the norm of all weights before their last step
        return losses

    trainer._learner.learn = diverge
    trainer.evaluate()
    with pytest.raises(DivergedError, match="the weight 'weight' is nan"):
        trainer.train()
    assert files(trainer.run_folder) == before and "best.pt" in before


class FailingEnv(ScriptedEnv):
    """Pays NaN, or is interrupted, at some step."""

    fails_at, failure = 1 << 30, None

    def step(self, actions):
        results = super().step(actions)
        if self.time == self.fails_at:
            if self.failure is not None:
                raise self.failure
            self.rewards[1] = math.nan
        return results


def failing(monkeypatch, fails_at, failure=None):
    monkeypatch.setattr(FailingEnv, "fails_at", fails_at)
    monkeypatch.setattr(FailingEnv, "failure", failure)


@pytest.mark.parametrize("fails_at", [8 * 7 + 3, 8 * 10 - 2])
def test_a_run_that_diverges_keeps_its_last_checkpoint(monkeypatch, fails_at):
    """In the last epoch too."""
    failing(monkeypatch, fails_at)
    vecenv = vector.make(FailingEnv, env_kwargs={"agents": 4}, backend="Serial")
    args = pufferl.load_config("puffer_squared")
    settings = {"bptt_horizon": 8, "total_timesteps": 8 * 4 * 10, "device": "cpu", "minibatch_size": "auto"}
    args["train"].update(settings, batch_size="auto", checkpoint_interval=3, log_interval=1)
    with pytest.raises(DivergedError, match="reward of agent 1") as caught:
        pufferl.train("puffer_squared", args, vecenv, Default(vecenv.driver_env, 8))
    (folder,) = Path("experiments").iterdir()
    state = checkpoint.load(folder / checkpoint.TRAINER_STATE)
    assert state["epoch"] == fails_at // 8 // 3 * 3
    assert str(caught.value).endswith(f"the last good checkpoint, {folder / state['model']}, is kept")
    for name in (state["model"], "last.pt"):
        assert all(tensor.isfinite().all() for tensor in checkpoint.load(folder / name).values())


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt(), RuntimeError("broken")])
def test_a_trainer_that_failed_in_a_rollout_saves_what_it_has_learnt(keep, monkeypatch, failure):
    trainer = recurrent_trainer(keep, FailingEnv)
    run(trainer, 2)
    failing(monkeypatch, 8 * 2 + 7, failure)
    learnt = weights(trainer)
    with pytest.raises(type(failure) if failure else DivergedError):
        trainer.evaluate()
    folder, path = trainer.run_folder, trainer.close()
    failing(monkeypatch, 1 << 30)
    resumed = recurrent_trainer(keep, FailingEnv)
    resumed.load_checkpoint(folder)
    assert is_same(checkpoint.load(Path(path)), learnt)
    assert (resumed.epoch, resumed.global_step) == (2, 2 * 96)
    run(resumed)


class CutEnv(FailingEnv):
    """Returns the last observations of the episodes that a limit cut."""

    def step(self, actions):
        *results, infos = super().step(actions)
        cut = self.truncations.nonzero()[0]
        finals = [{"agent_id": int(agent), "final_observation": self.observations[agent].copy()} for agent in cut]
        return *results, [*infos, *finals]


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt(), RuntimeError("broken")])
def test_a_rollout_after_one_that_failed_has_nothing_of_it(keep, monkeypatch, failure):
    trainer = recurrent_trainer(keep, CutEnv)
    run(trainer, 2)
    failing(monkeypatch, 8 * 2 + 7, failure)
    with pytest.raises(type(failure) if failure else DivergedError):
        trainer.evaluate()
    trainer.evaluate()
    if failure is not None:  # other episodes begin
        lengths = torch.from_numpy(episode_length(np.arange(12)))
        assert (trainer.observations[..., 1] == torch.arange(8) % lengths.unsqueeze(1)).all()
    found = trainer.rollout.finals
    assert trainer.rollout.truncations[found.segments, found.columns].all()
    assert len(found.columns) == trainer.rollout.truncations[:, 1:].sum()
    trainer.train()


def test_a_folder_that_was_removed_in_mid_run_can_be_resumed_again(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()
    before = {path.name for path in trainer.run_folder.iterdir()}
    shutil.rmtree(trainer.run_folder)
    trainer.save_checkpoint()
    assert {path.name for path in trainer.run_folder.iterdir()} >= before - {"metrics.jsonl"} >= {"config.json"}
    assert trainer.load_checkpoint(trainer.run_folder) == {}


def test_a_run_of_an_environment_with_a_long_name_can_be_resumed(keep):
    trainer = recurrent_trainer(keep, env="my_procedural_world_" * 4)
    trainer.save_checkpoint()
    assert trainer.load_checkpoint(trainer.run_folder) == {}
