"""What a trial tells its driver: scores of whole episodes at the end of each tenth, and of more in the end."""

import json
from pathlib import Path

import pytest

from pufferlib.config import load_config
from pufferlib.sweep.space import trial_args
from pufferlib.sweep.trial_process import TrialTask
from pufferlib.sweep.trial_training import UnscoredError, train_watched

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def told(metric, env="puffer_squared", **train):
    """The logs of a trial that trains for 20 iterations."""
    args = load_config(env, ["--train.device", "cpu", "--env.num-envs", "32"])
    args["train"].update({"batch_size": 256, "minibatch_size": 256, "bptt_horizon": 8, "total_timesteps": 20 * 256})
    args["train"].update(train)
    messages = []
    train_watched(TrialTask(0, trial_args(args, {}), metric, Path("log")), messages.append)
    return [message for message in messages if "progress" in message]


def test_each_tenth_plays_a_tenth_of_the_episodes_and_the_end_all_of_them():
    logs = told("score", final_episodes=40)
    scored = [log for log in logs if "rows" in log]
    assert [log["rows"][0][0] for log in scored] == pytest.approx([tenth / 10 for tenth in range(1, 11)])
    assert [log["episodes"] for log in scored] == [4] * 9 + [40]
    assert {log["metric"] for log in scored} == {"environment/score"}
    assert all(0 < log["episode_steps"] <= 32 * 100 for log in scored)
    costs = [log["cost"] for log in logs]
    assert costs == sorted(costs)


@pytest.mark.slow
def test_a_run_that_is_shorter_than_an_episode_has_a_score():
    logs = told("return", "puffer_freeway", total_timesteps=256, final_episodes=2)
    (scored,) = [log for log in logs if "rows" in log]
    assert (scored["metric"], scored["episodes"]) == ("episode/return_mean", 2)
    assert scored["episode_steps"] > 256


def test_without_play_the_episodes_that_ended_count():
    scored = [log for log in told("score", final_episodes=0) if "rows" in log]
    assert len(scored) > 1 and not any("episode_steps" in log for log in scored)
    with pytest.raises(UnscoredError, match="was not logged before the training ended") as raised:
        told("return", "puffer_freeway", total_timesteps=256, final_episodes=0)
    assert raised.value.ending == "unscored"


def test_without_play_a_tenth_is_the_mean_over_its_logs_by_their_episodes():
    scored = [log for log in told("score", final_episodes=0, log_interval=1, num_iterations=160) if "rows" in log]
    (path,) = Path("experiments").glob("*/metrics.jsonl")
    logs = [log for log in map(json.loads, path.read_text().splitlines()) if "environment/score" in log]
    for tenth, message in enumerate(scored):
        own = [log for log in logs if 16 * tenth < log["epoch"] <= 16 * (tenth + 1)]
        assert len(own) > 1
        assert message["episodes"] == sum(log["environment/n"] for log in own)
        total = sum(log["environment/score"] * log["environment/n"] for log in own)
        assert message["rows"][0][2] == pytest.approx(total / message["episodes"])
    assert len(scored) == 10 and len({log["environment/n"] for log in logs}) > 1


def test_a_metric_that_is_no_mean_over_episodes_is_taken_from_the_logs():
    scored = [log for log in told("losses/entropy", final_episodes=10) if "rows" in log]
    assert len(scored) == 10 and {log["episodes"] for log in scored} == {None}


def test_a_metric_that_nothing_reports_is_found_out():
    with pytest.raises(UnscoredError, match="did you mean 'score'") as raised:
        told("scor", final_episodes=10)
    assert raised.value.ending == "metric"
