"""A loop of env_init() and vectorize() in worker processes, at the size that people use it with."""

import numpy as np
from environments import TracedTemplate

from pufferlib import vector
from pufferlib.ocean.template.template import Template

NUM_ENVS, STEPS = 4096, 70  # over one report of the statistics


def rollout(backend, creator):
    kwargs = {"num_envs": NUM_ENVS, "rounds": 3}
    with vector.make(creator, env_kwargs=kwargs, backend=backend, num_envs=2, num_workers="auto", seed=5) as vecenv:
        actions = np.random.default_rng(0).integers(0, 2, (STEPS, vecenv.num_agents))
        rows, infos = [vecenv.reset()[0].copy()], []
        for action in actions:
            observations, rewards, terminals, truncations, reports = vecenv.step(action)
            rows.append(np.concatenate([observations[:, 0], rewards, terminals, truncations]))
            infos += reports
        return rows, infos


def test_two_processes_of_traced_environments_match_one_call_in_this_process():
    expected_rows, expected_infos = rollout("Serial", Template)
    rows, infos = rollout("Multiprocessing", TracedTemplate)
    assert infos == expected_infos and infos[0]["n"] > NUM_ENVS
    for found, expected in zip(rows, expected_rows, strict=True):
        np.testing.assert_array_equal(found, expected)
