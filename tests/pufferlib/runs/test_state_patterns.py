import contextlib
import copy
import itertools
import math
from pathlib import Path

import pytest
import torch
from saved_trainers import ORDER, edit, is_same, recurrent_trainer, run, two_heads

from pufferlib.errors import CheckpointError, PufferError
from pufferlib.runs import checkpoint
from pufferlib.runs.trainer_state import learning_state, rank_state

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def test_a_state_without_a_format_is_refused(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()
    trainer.save_checkpoint("stage.pt")
    for given, path in ((trainer.run_folder, trainer.run_folder / checkpoint.TRAINER_STATE), ("stage.pt", "stage.pt")):
        state = checkpoint.load(Path(path))
        del state["format"]
        checkpoint.save(Path(path), state)
        words = "holds no state of a trainer"
        with pytest.raises(CheckpointError, match=words) as caught:
            trainer.load_checkpoint(given)
        assert "\n" not in str(caught.value)


def places(value, path=()):
    """The places of everything in a state."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def spoilt(value):
    """What it is replaced by in turn."""
    yield from (
        None,
        True,
        "text",
        7,
        -1,
        2**70,
        0.5,
        math.nan,
        -math.inf,
        1e300,
        (),
        [],
        {},
        [[1, 2]],
        {"a": 1},
        {3: 4},
    )
    yield torch.zeros(2, 2)
    if isinstance(value, dict):
        yield from ({name: each for name, each in value.items() if name != missing} for missing in value)
        yield {**value, "unknown": 1}
    if isinstance(value, list):
        yield from (value[:-1], [*value, 0], value[::-1])
    if isinstance(value, torch.Tensor):
        yield from (
            value.unsqueeze(0),
            value.flatten()[:-1],
            value.double() if value.is_floating_point() else value.float(),
        )
        yield value.numpy().tolist()
        if not value.is_floating_point():
            yield torch.full_like(value, True if value.dtype == torch.bool else 125)
    if type(value) is int:
        yield value + 1


def replaced(state, path, value):
    """The state with something else at a place; what is not on the way there is shared."""
    if not path:
        return value
    copied = copy.copy(state)
    copied[path[0]] = replaced(state[path[0]], path[1:], value)
    return copied


def content(trainer):
    """Everything that a load may change."""
    state = {
        "ranks": rank_state(trainer._parts, trainer.stats if trainer._has_untrained_rollout else None),
        "weights": trainer.policy.state_dict(),
        "steps": trainer.global_step,
    }
    state["learning"] = learning_state(trainer._parts)
    del state["ranks"]["interval"]["seconds"]
    return copy.deepcopy(state)


def test_a_state_that_would_train_for_ever_is_refused(keep):
    trainer = recurrent_trainer(keep)
    run(trainer)
    trainer.save_checkpoint()
    edit(trainer.run_folder, lambda state: state["learning"]["learner"].update(minibatches_due=1e9))
    with pytest.raises(CheckpointError, match=r"\['minibatches_due'\] must be a part of a minibatch"):
        trainer.load_checkpoint(trainer.run_folder)


def test_of_more_processes_only_what_is_used_is_looked_at(keep):
    trainer = recurrent_trainer(keep)
    run(trainer)
    trainer.save_checkpoint()
    edit(trainer.run_folder, lambda state: state.update(ranks=[{**state["ranks"][0], "interval": {}}, {}]))
    with pytest.raises(
        CheckpointError, match=r"ranks\[0\]\['interval'\] must be a dict with 'seconds', got an empty dict"
    ):
        trainer.load_checkpoint(trainer.run_folder)


def patch_load(monkeypatch, load):
    monkeypatch.setattr("pufferlib.runs.checkpoint.load", load)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", ["trainer_state.pt", "stage.pt"])
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 23])
def test_whatever_stands_in_a_checkpoint_it_is_refused_or_gone_on_from(keep, monkeypatch, name, stride):
    """Everything at every place is replaced by what is wrong there; what is in snapshots is the environments' own."""
    trainer = recurrent_trainer(keep)
    run(trainer, 3)
    trainer.evaluate()
    trainer.save_checkpoint(metadata={"note": [1, {"two": 2.0}]})
    trainer.save_checkpoint("stage.pt")
    path = trainer.run_folder if name == "trainer_state.pt" else Path(name)
    load = checkpoint.load
    found = load(path / name if path.is_dir() else path)
    trainer.load_checkpoint(path)
    before, refused, taken = content(trainer), 0, 0
    used = (place for place in places(found) if place[:1] != ("description",))  # which no trainer goes on from
    states = (replaced(found, place, value) for place in used for value in spoilt(at(found, place)))
    for state in itertools.islice(states, 0, None, stride):
        patch_load(monkeypatch, lambda path, *_, state=state: state if path.name == name else load(path))
        try:
            trainer.load_checkpoint(path)
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 700
            assert is_same(content(trainer), before)
        else:
            taken += 1
            with contextlib.suppress(PufferError):  # numbers that are possible, and training diverges from
                run(trainer)
            patch_load(monkeypatch, load)
            trainer.load_checkpoint(path)
            if path.is_dir():  # a file leaves the environments as they are
                assert is_same(content(trainer), before)
            before = content(trainer)
    assert refused > taken > 0
