"""Folders of runs that never ran: what a training leaves, made up."""

from __future__ import annotations

import json
from pathlib import Path

from pufferlib.config import load_config

STEPS = 1000  # of a whole run


def made_run(data_dir, run_id, env_name="puffer_cartpole", logs=4, saved=True, **train):
    """A run's folder whose score rises by 0.1 with every log, one log for every tenth of its steps; returns it."""
    folder = Path(data_dir) / f"{env_name}_{run_id}"
    folder.mkdir(parents=True)
    settings = load_config(env_name)
    settings["train"].update({"total_timesteps": STEPS, **train})
    facts = {"versions": {"pufferlib": "5", "torch": "2"}, "git_commit": "abc", "seed": settings["train"]["seed"]}
    computation = {"by": "C kernel", "because": None}
    (folder / "config.json").write_text(json.dumps({"settings": settings, "computation": computation, **facts}))
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(made_log(count))}\n" for count in range(1, logs + 1)))
    if saved:
        (folder / "trainer_state.pt").touch()
        end = settings["train"]["num_iterations"] or 10
        note = {"env": env_name, "agent_steps": logs * STEPS // 10, "epoch": logs, "end": end}
        (folder / "last.json").write_text(json.dumps(note))
    return folder


def made_log(count):
    """The metrics of the log of that number, from 1 on."""
    steps = count * STEPS // 10
    return {
        **{"step": steps, "agent_steps": steps, "epoch": count, "sps": 500.0, "uptime": 2.0 * count},
        **{"learning_rate": 0.01, "environment/perf": 0.1 * count, "environment/n": 5.0},
        **{"episode/return_mean": 50.0 * count, "losses/entropy": 1.0 / count, "losses/policy_loss": -0.01},
        **{"performance/environment": 0.5, "performance/learn": 0.3, "performance/other": 0.2},
    }
