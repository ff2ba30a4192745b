import contextlib

import numpy as np
import pytest
from collecting import collected, going_on, make_collector, scripted_vector
from scripted import ScriptedEnv
from scripted_policies import CountingPolicy, LinearPolicy

from pufferlib import vector
from pufferlib.runs.trainer_state import collector_state, load_collector_state


@pytest.mark.parametrize("keywords", [{}, {"batch_size": 1}])
def test_a_restored_collector_goes_on_exactly(keywords):
    def started():
        return make_collector(scripted_vector(has_absent_agents=True, **keywords), CountingPolicy(), groups=2)

    collector = started()
    collector.collect()
    restored = going_on(started(), collector)
    first, second = collected(collector, 2), collected(restored, 2)
    assert collector.statistics.episodes.count > 0
    assert restored.statistics.metrics() == collector.statistics.metrics()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_an_environment_without_snapshots_has_no_state():
    class Forgetful(ScriptedEnv):
        def snapshot(self):
            return None

    vecenv = vector.make(Forgetful, backend="Serial")
    assert collector_state(make_collector(vecenv, LinearPolicy())) is None


def test_a_shuffled_batch_goes_on_after_a_resume():
    def started():
        vecenv = scripted_vector(num_envs=4, backend="Multiprocessing", num_workers=2, batch_size=4, zero_copy=False)
        return vecenv, make_collector(vecenv, CountingPolicy())

    (vecenv, collector), (other, restored) = started(), started()
    with contextlib.closing(vecenv), contextlib.closing(other):
        collector.collect()
        load_collector_state(restored, collector_state(collector))
        restored.generator.set_state(collector.generator.get_state())
        first, second = collected(collector, 2), collected(restored, 2)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
