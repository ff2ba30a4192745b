import contextlib
import ctypes
import functools
import gc
import mmap
import re
import time
import warnings
from dataclasses import fields
from threading import Thread

import numpy as np
import pytest
import torch
from collecting import collected, going_on, make_collector, scripted_vector
from recorded_capture import FakeCapture
from scripted_policies import ConstantPolicy, CountingPolicy, InPlacePolicy, LinearPolicy

from pufferlib import pufferl, vector
from pufferlib.errors import PufferError, PufferWarning
from pufferlib.extensions import cuda_library
from pufferlib.fast import cuda_graphs
from pufferlib.fast.cuda_graphs import WAITS, WARM_UP, CapturedCall, PinnedArrays, whole_memory
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.fast.learners import CapturedLearner
from pufferlib.metrics.measures import Phases
from pufferlib.ocean import env_class
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.trainer_state import learner_state, load_learner_state

CPU = torch.device("cpu")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="captures need a CUDA device")


# --- calls


def test_every_call_does_the_work_once_before_and_after_the_capture():
    count, capture = [], FakeCapture()
    call = CapturedCall(lambda: count.append(1), torch.Generator(), None, capture)
    for calls in range(1, 8):
        call()
        assert len(count) == calls
        assert len(capture.captured) == (calls > WARM_UP)
    assert capture.replays == 7 - WARM_UP


def test_what_cannot_be_captured_goes_on_as_it_is_with_one_warning():
    generator, draws = torch.Generator().manual_seed(1), []
    capture = FakeCapture(RuntimeError("operation not permitted when stream is capturing\nmore"))
    call = CapturedCall(lambda: draws.append(torch.rand(1, generator=generator)), generator, None, capture)
    for _ in range(WARM_UP):
        call()
    with pytest.warns(
        PufferWarning, match=r"cannot be captured .*\(operation not permitted when stream is capturing\)"
    ):
        call()
    call()
    assert len(capture.captured) == 1
    again = torch.Generator().manual_seed(1)
    assert torch.equal(torch.cat(draws), torch.cat([torch.rand(1, generator=again) for _ in draws]))


def test_a_launch_that_fails_in_a_capture_is_done_without():
    capture = FakeCapture(PufferError("cuLaunchKernel must succeed"))
    call = CapturedCall(lambda: None, torch.Generator(), None, capture)
    for _ in range(WARM_UP):
        call()
    with pytest.warns(PufferWarning, match=r"cannot be captured .*\(cuLaunchKernel must succeed\)"):
        call()


def test_what_waits_for_the_gpu_is_not_captured_and_its_line_is_named():
    count, capture = [], FakeCapture()

    def work():
        count.append(1)
        warnings.warn(f"{WAITS} (Triggered internally at ...)", UserWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)

    call = CapturedCall(work, torch.Generator(), None, capture)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(WARM_UP):
            call()
    found = [str(each.message) for each in caught if each.category is PufferWarning]
    assert len(found) == 1 and re.search(r"it waits for the GPU, test_cuda_graphs\.py, line \d+", found[0])
    assert sum("something else" in str(each.message) for each in caught) == WARM_UP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(3):
            call()
    assert not capture.captured and len(count) == WARM_UP + 3


def test_two_threads_capture_one_after_the_other():
    now, most = [], []

    def capture(function, generator, stream):
        now.append(1)
        most.append(len(now))
        time.sleep(0.05)
        now.pop()
        return function

    calls = [CapturedCall(lambda: None, torch.Generator(), None, capture) for _ in range(3)]
    threads = [Thread(target=lambda call=call: [call() for _ in range(WARM_UP + 1)]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]


def test_errors_of_the_warm_up_are_not_taken_for_those_of_a_capture():
    call = CapturedCall(lambda: 1 / 0, torch.Generator(), None, FakeCapture())
    with pytest.raises(ZeroDivisionError):
        call()


def test_adamw_does_not_complain_about_the_warm_up():
    def step():
        warnings.warn("constructed with capturable=True but step() is running without CUDA graph capture", stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CapturedCall(step, torch.Generator(), None, FakeCapture())()
    assert caught == []


class FakeStream:
    """Notes what waits for what."""

    device = "cuda:0"

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def fake_cuda(monkeypatch):
    """Stands in for torch.cuda; gives the log of what is asked of it, and a stream beside the current one."""
    log = []
    state = {"current": FakeStream("main", log)}

    @contextlib.contextmanager
    def entered(stream):
        before, state["current"] = state["current"], stream
        yield
        state["current"] = before

    class Graph:
        def register_generator_state(self, generator):
            log.append("register generator")

        def replay(self):
            log.append(f"replay on {state['current'].name}")

    @contextlib.contextmanager
    def record(graph, pool, stream, capture_error_mode):
        assert (pool, capture_error_mode) == ("a pool", "thread_local")
        with entered(stream):
            log.append("begin capture")
            yield
            log.append("end capture")

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: state["current"])
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "a pool")
    return log, FakeStream("side", log), state


def test_work_runs_on_its_stream_between_that_of_the_caller(fake_cuda):
    log, side, state = fake_cuda
    call = CapturedCall(lambda: log.append(f"work on {state['current'].name}"), torch.Generator(), side)
    for _ in range(WARM_UP):
        call()
    one = ["side waits for main", "work on side", "main waits for side"]
    assert log == WARM_UP * one
    log.clear()
    call(), call()
    captured = ["register generator", "begin capture", "work on side", "end capture"]
    replayed = ["replay on side", "main waits for side"]
    assert log == ["side waits for main", *captured, *replayed, "side waits for main", *replayed]
    assert state["current"].name == "main"


class FakeState:
    """What a CUDA generator draws from; it knows whether it is being recorded."""

    def __init__(self, offset=0):
        self.offset, self.is_recorded = offset, False


class FakeCudaGenerator:
    """Draws 0, 1, 2, ..., by a state that graphs hold on to, as CUDA's generators do."""

    device = torch.device("cuda:0")

    def __init__(self, state=None):
        self.state = state or FakeState()

    def draw(self, is_recording):
        if self.state.is_recorded != is_recording:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        if is_recording:
            return None
        self.state.offset += 1
        return self.state.offset - 1

    def get_state(self):
        return self.state.offset

    def set_state(self, offset):
        self.state.offset = offset

    def clone_state(self):
        return FakeCudaGenerator(FakeState(self.state.offset))

    def graphsafe_set_state(self, other):
        self.state = other.state


class Recorder:
    """Stands in for torch.cuda where one number is drawn in every call of what is recorded."""

    def __init__(self, monkeypatch, can_begin=True):
        self.numbers = []
        self.is_recording = False
        self.ended_pools = []
        recorder = self

        class Graph:
            def register_generator_state(self, generator):
                self.state = generator.state

            def capture_begin(self):
                if not can_begin:
                    raise RuntimeError("CUDA error")
                recorder.is_recording = self.state.is_recorded = True

            def capture_end(self):
                recorder.is_recording = self.state.is_recorded = False

            def replay(self):
                recorder.numbers.append(self.state.offset)
                self.state.offset += 1

        @contextlib.contextmanager
        def record(graph, pool, stream, capture_error_mode):
            recorder.is_recording = graph.state.is_recorded = True
            try:
                yield
            except RuntimeError:
                recorder.is_recording = False  # but the state is not told
                raise
            recorder.is_recording = graph.state.is_recorded = False

        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", record)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "a pool")
        end = "_cuda_endAllocateToPool"
        monkeypatch.setattr(torch._C, end, lambda *pool: recorder.ended_pools.append(pool), raising=False)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)

    def draw(self, generator):
        number = generator.draw(self.is_recording)
        if number is not None:
            self.numbers.append(number)

    def draw_and_ask(self, generator):
        self.draw(generator)
        if self.is_recording:
            raise RuntimeError("operation not permitted when stream is capturing")


def test_after_a_broken_capture_graphs_of_before_and_what_comes_later_draw_from_one_stream(monkeypatch):
    recorder, generator = Recorder(monkeypatch), FakeCudaGenerator()
    early, late = (CapturedCall(lambda: recorder.draw(generator), generator, None) for _ in range(2))
    broken = CapturedCall(lambda: recorder.draw_and_ask(generator), generator, None)
    for call in [early] * 5 + [broken] * WARM_UP:
        call()
    with pytest.warns(PufferWarning, match="cannot be captured"):
        broken()
    for call in [broken, early, broken, early] + [late] * 5 + [early, broken, late]:
        call()
    assert recorder.numbers == list(range(8 + 1 + 4 + 5 + 3))
    assert recorder.ended_pools == [(0, "a pool")]


def test_a_generator_whose_recording_cannot_be_ended_goes_on_with_another_state(monkeypatch):
    recorder, generator = Recorder(monkeypatch, can_begin=False), FakeCudaGenerator()
    broken = CapturedCall(lambda: recorder.draw_and_ask(generator), generator, None)
    for _ in range(WARM_UP):
        broken()
    with pytest.warns(PufferWarning, match="cannot be captured"):
        broken()
    broken()
    assert recorder.numbers == list(range(WARM_UP + 2))


# --- the rollout


class ColumnStore(GraphActor):
    """Stores observations by the column's place, as on a GPU, whose memory the CPU cannot reach."""

    def __init__(self, *arguments, capture=None):
        super().__init__(*arguments, capture=capture or FakeCapture())
        self._is_stored_at_once = False


@pytest.mark.quick(
    "keywords0-LinearPolicy-ColumnStore", "keywords1-InPlacePolicy-actor_class0", "keywords2-CountingPolicy-ColumnStore"
)
@pytest.mark.parametrize("actor_class", [functools.partial(GraphActor, capture=FakeCapture()), ColumnStore])
@pytest.mark.parametrize("policy", [LinearPolicy, CountingPolicy, InPlacePolicy])
@pytest.mark.parametrize("keywords", [{"groups": 1}, {"groups": 3}, {"groups": 2, "batch_size": 1}])
def test_a_replayed_step_writes_what_an_actor_writes(actor_class, policy, keywords):
    arrays = []
    groups, options = keywords["groups"], {name: value for name, value in keywords.items() if name != "groups"}
    for chosen in (Actor, actor_class):
        vecenv = scripted_vector(has_absent_agents=True, **options)
        arrays.append(collected(make_collector(vecenv, policy(), groups, actor_class=chosen), rollouts=3))
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name], err_msg=name)


def test_each_batch_is_captured_once_for_all_columns_groups_and_rollouts():
    capture = FakeCapture()
    vecenv = scripted_vector(num_envs=4, batch_size=2)
    collector = make_collector(vecenv, LinearPolicy(), 2, actor_class=functools.partial(GraphActor, capture=capture))
    for _ in range(3):
        collector.collect()
    assert len(capture.captured) == 2
    assert capture.replays == 2 * (3 * 2 * 7 - WARM_UP)


def test_a_restored_actor_does_not_end_the_episodes_that_ended_before():
    def started():
        return make_collector(scripted_vector(), CountingPolicy(), 2, actor_class=ColumnStore)

    collector, used = started(), started()
    collector.collect()
    used.collect(), used.collect()
    going_on(used, collector)
    first, second = collected(collector, 2), collected(used, 2)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


# --- minibatches


def make_trainer(tmp_path, rnn_name="MinGRU", **settings):
    args = pufferl.load_config("puffer_breakout")
    args["env"]["num_envs"], args["rnn_name"] = 16, rnn_name
    defaults = {"device": "cpu", "bptt_horizon": 16, "minibatch_size": 64, "update_epochs": 1.25, "fused": False}
    args["train"].update(data_dir=str(tmp_path), **{**defaults, **settings})
    vecenv = vector.make(env_class("puffer_breakout"), env_kwargs={"num_envs": 16}, backend="Serial", seed=1)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    return pufferl.PuffeRL(args["train"], vecenv, policy)


def make_captured_trainer(tmp_path, capture, **settings):
    """On a CPU, with the learning rate as a tensor and every minibatch a call of the fake capture."""
    trainer = make_trainer(tmp_path, **settings)
    learner, phases = trainer._learner, trainer.phases
    parts = trainer.rollout, learner.gradients, learner.optimizer, trainer._generator, phases
    trainer._learner = CapturedLearner(*parts)
    trainer._learner.capture = capture
    return trainer


@pytest.mark.quick("muon")
@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_captured_minibatches_train_as_the_others_do(tmp_path, optimizer):
    capture = FakeCapture()
    settings = {"optimizer": optimizer, "learning_rate": 0.01, "num_iterations": 4}
    settings["adam_eps"] = 1e-6  # less makes large steps of gradients that are all rounding
    trainers = make_trainer(tmp_path, **settings), make_captured_trainer(tmp_path, capture, **settings)
    for trainer in trainers:
        for _ in range(3):
            trainer.evaluate()
            trainer.train()
    assert len(capture.captured) == 1 and capture.replays == 15 - WARM_UP  # 1.25 epochs of 4 minibatches
    for parameter, other in zip(*(trainer.policy.parameters() for trainer in trainers), strict=True):
        torch.testing.assert_close(parameter, other, atol=1e-5, rtol=1e-4)
    assert trainers[0].report.losses == pytest.approx(trainers[1].report.losses, abs=1e-4)


def test_phases_are_marked_around_a_capture_and_a_replay_never_inside(tmp_path, monkeypatch):
    is_inside = False

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self, stream):
            assert not is_inside

        def query(self):
            return True

        def elapsed_time(self, end):
            return 1000.0

    class Watched(FakeCapture):
        def __call__(self, function, generator, stream):
            def watched():
                nonlocal is_inside
                is_inside = True
                function()
                is_inside = False

            watched()
            return super().__call__(watched, generator, stream)

    trainer = make_captured_trainer(tmp_path, capture := Watched())
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    trainer._learner._phases = phases = Phases(torch.device("cuda"))
    trainer.evaluate(), trainer.train()
    assert capture.replays == 5 - WARM_UP
    shares = phases.device_shares()  # of a new rollout; 5 minibatches and the metrics
    assert shares.keys() == {"advantage", "learn"} and shares["learn"] == pytest.approx(6 * shares["advantage"])
    assert phases.shares().keys() == {"advantage", "learn", "other"}


def test_a_minibatch_where_agents_are_absent_is_captured_apart(tmp_path):
    capture = FakeCapture()
    trainer = make_captured_trainer(tmp_path, capture)
    trainer.evaluate()
    for is_full in (True, False) * 4:
        trainer._learner.learn(0.01, 0.0, is_full)
    assert len(capture.captured) == 4  # and so are the metrics


def test_a_loaded_state_is_captured_anew(tmp_path):
    capture = FakeCapture()
    trainer = make_captured_trainer(tmp_path, capture, learning_rate=0.02, anneal_lr=False)
    trainer.evaluate(), trainer.train()
    state = learner_state(trainer._learner)
    load_learner_state(trainer._learner, state)
    trainer.evaluate(), trainer.train()
    assert len(capture.captured) == 2
    assert isinstance(trainer._learner.optimizer.param_groups[0]["lr"], torch.Tensor)
    assert trainer._learner.learning_rate == pytest.approx(0.02)


def test_a_policy_that_was_changed_is_captured_anew(tmp_path):
    capture, changed = FakeCapture(), FakeCapture()
    settings = {"optimizer": "adam", "learning_rate": 0.01, "num_iterations": 6}
    trainers = make_trainer(tmp_path, **settings), make_captured_trainer(tmp_path, capture, **settings)
    for trainer in trainers:
        trainer.evaluate(), trainer.train()
    trainers[1]._learner.capture = changed
    for trainer in trainers:
        trainer.policy.policy.encoder.requires_grad_(False)
        for _ in range(3):
            trainer.evaluate(), trainer.train()
    assert len(capture.captured) == len(changed.captured) == 1
    assert isinstance(trainers[1]._learner.optimizer.param_groups[0]["lr"], torch.Tensor)
    for parameter, other in zip(*(trainer.policy.parameters() for trainer in trainers), strict=True):
        torch.testing.assert_close(parameter, other, atol=1e-5, rtol=1e-4)


def test_a_state_saved_with_captures_is_one_without_after_loading(tmp_path):
    saved = make_captured_trainer(tmp_path, FakeCapture(), learning_rate=0.02)
    saved.evaluate(), saved.train()
    trainer = make_trainer(tmp_path)
    load_learner_state(trainer._learner, learner_state(saved._learner))
    assert trainer._learner.optimizer.param_groups[0]["lr"] == pytest.approx(0.02)
    assert type(trainer._learner.optimizer.param_groups[0]["lr"]) is float


# --- pinned memory


class FakeDriver:
    """Counts the locks of libcuda, in whose place it is, and refuses on request."""

    def __init__(self, monkeypatch, status=0):
        self.status = status
        self.locked, self.calls = {}, 0
        monkeypatch.setattr(cuda_graphs, "open_driver", lambda: self)

    def cuMemHostRegister_v2(self, address, size, flags):
        self.calls += 1
        if self.status == 0:
            self.locked[address.value] = size.value
        return self.status

    def cuMemHostUnregister(self, address):
        del self.locked[address.value]
        return 0


def test_the_whole_memory_of_a_vector_is_locked_once_and_let_go(monkeypatch):
    vecenv = scripted_vector(num_envs=4, batch_size=2)
    vecenv.async_reset(0)
    driver, pinned = FakeDriver(monkeypatch), PinnedArrays(CPU)
    batches = [vecenv.recv() for _ in range(2)]
    assert all(pinned.pin(array) for batch in batches for array in batch[:4])
    ((address, size),) = driver.locked.items()
    for batch in batches:
        for array in batch[:4]:
            begin = array.ctypes.data
            assert address <= begin and begin + array.nbytes <= address + size
    assert driver.calls == 1 and address % mmap.PAGESIZE == 0
    pinned.close()
    pinned.close()
    assert driver.locked == {}
    vecenv.close()


def test_memory_that_the_driver_refuses_is_asked_for_once(monkeypatch):
    driver, pinned = FakeDriver(monkeypatch, status=304), PinnedArrays(CPU)
    array = np.zeros(8)
    assert not pinned.pin(array) and not pinned.pin(array[2:])
    assert driver.calls == 1
    pinned.close()


def test_the_driver_is_called_in_the_context_of_the_device_that_copies(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def current(device):
        entered.append(str(device))
        yield
        entered.append("left")

    class Driver(FakeDriver):
        def cuMemHostRegister_v2(self, *arguments):
            entered.append("lock")
            return super().cuMemHostRegister_v2(*arguments)

        def cuMemHostUnregister(self, address):
            entered.append("unlock")
            return super().cuMemHostUnregister(address)

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: entered.append("synchronize"))
    Driver(monkeypatch)
    pinned = PinnedArrays(torch.device("cuda:1"))
    assert pinned.pin(np.zeros(8))
    pinned.close()
    assert entered == ["cuda:1", "lock", "left", "synchronize", "cuda:1", "unlock", "left"]


def test_without_nvidias_driver_nothing_is_locked_and_nothing_fails(monkeypatch):
    """As on a GPU of AMD's."""

    def fail():
        raise PufferError("expected NVIDIA's driver library")

    monkeypatch.setattr(cuda_graphs, "open_driver", fail)
    pinned = PinnedArrays(CPU)
    assert not pinned.pin(np.zeros(8))
    pinned.close()


def test_memory_of_what_is_forgotten_is_unlocked(monkeypatch):
    driver, pinned = FakeDriver(monkeypatch), PinnedArrays(CPU)
    assert pinned.pin(np.zeros(8)) and driver.locked
    del pinned
    gc.collect()
    assert not driver.locked


def test_without_nvidias_driver_nothing_is_locked(monkeypatch):
    monkeypatch.setattr(cuda_library.ctypes, "CDLL", refuse)
    cuda_library.open_driver.cache_clear()
    pinned = PinnedArrays(CPU)
    assert not pinned.pin(np.zeros(8))
    pinned.close()


def refuse(name):
    raise OSError(f"{name}: cannot open shared object file")


def test_the_memory_of_a_view_is_that_of_its_owner():
    owner = np.arange(12, dtype=np.int32)
    view = owner.reshape(3, 4)[1:, :2]
    assert whole_memory(view).ctypes.data == owner.ctypes.data and whole_memory(view).nbytes == 48
    block = (ctypes.c_float * 10)()
    assert whole_memory(np.ctypeslib.as_array(block)[3:]).nbytes == 40


# --- with a GPU


@needs_cuda
@pytest.mark.parametrize("batch_size", [1, 2])
def test_captured_and_plain_rollouts_on_a_gpu_are_the_same(batch_size):
    device = torch.device("cuda")
    rollouts = []
    for actor_class in (Actor, GraphActor):
        vecenv = vector.make(
            env_class("puffer_breakout"), env_kwargs={"num_envs": 33}, num_envs=2, batch_size=batch_size, seed=3
        )
        spaces = vecenv.single_observation_space, vecenv.single_action_space
        rollout = Rollout.allocate(*spaces, vecenv.num_agents, 40, {}, device, device)
        generator = torch.Generator(device).manual_seed(0)
        actor = actor_class(ConstantPolicy(), rollout, vecenv.num_agents, generator, contextlib.nullcontext)
        collector = Collector(vecenv, actor, Phases())
        collector.reset(None)
        collector.collect(), collector.collect()
        rollouts.append({field.name: getattr(rollout, field.name) for field in fields(Rollout)})
        actor.close()
        vecenv.close()
    for name, tensor in rollouts[0].items():
        if isinstance(tensor, torch.Tensor):
            torch.testing.assert_close(tensor, rollouts[1][name], msg=name)


@needs_cuda
@pytest.mark.parametrize(("optimizer", "rnn_name"), [("muon", "MinGRU"), ("adam", "LSTM"), ("adam", None)])
def test_captured_and_plain_training_on_a_gpu_are_the_same(tmp_path, optimizer, rnn_name):
    policies = []
    settings = {"device": "cuda", "optimizer": optimizer, "learning_rate": 1e-3, "num_iterations": 4}
    for has_graphs in (False, True):
        trainer = make_trainer(tmp_path, rnn_name, cuda_graphs=has_graphs, **settings)
        for _ in range(4):  # 5 minibatches each, so most of them are replays
            trainer.evaluate()
            losses = trainer.train()
        assert all(np.isfinite(value) for value in losses.values())
        assert isinstance(trainer._learner, CapturedLearner) == has_graphs
        policies.append([parameter.detach().clone() for parameter in trainer.policy.parameters()])
        trainer.release()
    for plain, captured in zip(*policies, strict=True):
        torch.testing.assert_close(plain, captured, atol=1e-3, rtol=1e-2)


@needs_cuda
def test_a_policy_that_asks_the_gpu_for_a_number_goes_on_uncaptured():
    generator = torch.Generator("cuda").manual_seed(0)
    total = torch.zeros(1, device="cuda")

    def step():
        if total.item() >= 0:
            total.add_(torch.rand(1, device="cuda", generator=generator))

    call = CapturedCall(step, generator, torch.cuda.Stream())
    for _ in range(WARM_UP):
        call()
    with pytest.warns(PufferWarning, match="cannot be captured"):
        call()
    call()
    again = torch.Generator("cuda").manual_seed(0)
    expected = sum(torch.rand(1, device="cuda", generator=again) for _ in range(WARM_UP + 2))
    torch.testing.assert_close(total, expected)
