import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
from scripted import ScriptedEnv

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.vector import ordered
from pufferlib.vector.ordered import OrderedVector, as_slice


def scripted_vector(num_envs, **keywords):
    kwargs = [{"index": i, "agents": 2, "has_absent_agents": False} for i in range(num_envs)]
    return vector.make(ScriptedEnv, env_kwargs=kwargs, num_envs=num_envs, **keywords)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([4, 5, 6], slice(4, 7)), ([7], slice(7, 8)), ([0, 2, 1, 3], None), ([2, 1], None), ([0, 2], None)],
)
def test_only_consecutive_rows_are_a_slice(rows, expected):
    assert as_slice(np.array(rows)) == expected


def test_the_array_that_says_which_agents_came_is_looked_at_once(monkeypatch):
    looked_at = []
    monkeypatch.setattr(ordered, "as_slice", lambda rows: looked_at.append(rows) or as_slice(rows))
    with contextlib.closing(scripted_vector(4, backend="Serial", batch_size=2)) as vecenv:
        batches = OrderedVector(vecenv)
        vecenv.async_reset(0)
        for _ in range(6):
            rows = batches.receive().rows
            batches.send(rows, np.zeros(4, np.int32))
    assert len(looked_at) == 2


def test_a_batch_in_the_order_of_its_workers_is_put_in_that_of_the_agents():
    """Of environments that tell who acted how, as a batch in another order must be answered in that order."""

    class Shuffled:
        num_agents = agents_per_batch = 4
        order = np.array([2, 3, 0, 1])
        action_masks = np.eye(4, dtype=bool)[order]

        def recv(self):
            numbers = 10.0 * self.order
            flags = self.order == 3
            return numbers[:, None], numbers, flags, flags, [], self.order, ~flags

        def send(self, actions, agent_ids):
            self.sent = actions.tolist(), agent_ids.tolist()

    vecenv = Shuffled()
    batches = OrderedVector(vecenv)
    received = batches.receive()
    assert received.rows == slice(0, 4) and received.observations[:, 0].tolist() == [0, 10, 20, 30]
    assert received.terminals.tolist() == [False, False, False, True] == (~received.masks).tolist()
    assert (received.action_masks == np.eye(4, dtype=bool)).all()
    batches.send(received.rows, np.array([5, 6, 7, 8]))
    assert vecenv.sent == ([7, 8, 5, 6], [2, 3, 0, 1])


def test_batches_of_environments_in_different_progress_are_refused():
    with pytest.raises(APIUsageError, match="same environments in every batch"):
        OrderedVector(SimpleNamespace(mixes_batches=True))
