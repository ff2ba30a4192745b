"""A trainer comes and goes, alone or beside others, and leaves the program around it as it was."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref

import psutil
import pytest
import torch

from pufferlib import pufferl
from pufferlib.errors import APIUsageError

SETTINGS = {"device": "cpu", "bptt_horizon": 8, "minibatch_size": 64, "total_timesteps": 100_000, "log_interval": 1}

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def make_trainer(env_name="puffer_squared", backend="Native", num_envs=2, rnn_name=None, seed=0):
    args = pufferl.load_config(env_name)
    args["rnn_name"], args["rnn"], args["policy"] = rnn_name, {}, {"hidden_size": 16}
    args["env"]["num_envs"] = 8
    args["vec"].update(backend=backend, num_envs=num_envs)
    args["train"].update(SETTINGS, seed=seed)
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    return pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy)


def iterate(trainer, epochs=2):
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


def held():
    """Threads, children and open files of this process."""
    gc.collect()
    process = psutil.Process()
    return process.num_threads(), len(process.children(recursive=True)), process.num_fds()


CASES = [
    {"backend": "Native"},
    {"backend": "Native", "env_name": "puffer_breakout", "rnn_name": "MinGRU"},
    *(
        pytest.param(case, marks=pytest.mark.slow)
        for case in ({"backend": "Serial", "rnn_name": "LSTM", "num_envs": 1}, {"backend": "Multiprocessing"})
    ),
]


@pytest.mark.quick("Native-closed")
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "forgotten"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_nothing_is_left_of_a_trainer(case, is_closed):
    def use():
        trainer = make_trainer(**case)
        iterate(trainer)
        if is_closed:
            assert trainer.close() == trainer.close()
        return weakref.ref(trainer), weakref.ref(trainer.vecenv), weakref.ref(trainer.policy)

    use()  # what is started once for the process: the optimizer's imports, psutil's files
    before = held()
    references = [reference for _ in range(2) for reference in use()]
    assert held() == before
    assert all(reference() is None for reference in references)


def test_two_trainers_side_by_side_learn_what_each_learns_alone():
    cases = [dict(seed=1), dict(seed=2, env_name="puffer_breakout", rnn_name="MinGRU")]
    alone = []
    for case in cases:
        trainer = make_trainer(**case)
        alone.append(iterate(trainer, 4))
        trainer.close()
    both = [make_trainer(**case) for case in cases]
    together = [None, None]
    for _ in range(4):
        together = [iterate(trainer, 1) for trainer in both]
    for trainer in both:
        trainer.close()
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_trainers_of_two_threads_do_not_disturb_each_other():
    cases = [dict(seed=1), dict(seed=2)]
    alone = [iterate(make_trainer(**case), 4) for case in cases]
    together = {}

    def body(index):
        trainer = make_trainer(**cases[index])
        together[index] = iterate(trainer, 4)
        trainer.close()

    threads = [threading.Thread(target=body, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert all(torch.equal(alone[index], together[index]) for index in (0, 1))


HOST = """
import asyncio, os, signal, sys
sys.argv = ["ipykernel_launcher.py", "-f", "kernel.json", "--train.gamma", "7"]

def own(number, frame): pass
signal.signal(signal.SIGINT, own); signal.signal(signal.SIGTERM, own)
environment, folder = dict(os.environ), os.getcwd()

async def cell():
    from pufferlib import pufferl
    args = pufferl.load_config("puffer_squared")
    args["env"]["num_envs"] = 8
    args["train"].update(device="cpu", bptt_horizon=8, minibatch_size=64, total_timesteps=512)
    return pufferl.train("puffer_squared", args)

assert len(asyncio.run(cell())) > 0
assert signal.getsignal(signal.SIGINT) is own and signal.getsignal(signal.SIGTERM) is own
assert sys.argv[-1] == "7" and dict(os.environ) == environment and os.getcwd() == folder
print("done")
"""


@pytest.mark.slow
def test_a_host_program_keeps_its_arguments_and_signal_handlers():
    done = subprocess.run([sys.executable, "-c", HOST], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "done"


def train_in_child(case, results):
    trainer = make_trainer(**case)
    results.put(iterate(trainer, 3).tolist())
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_any_start_method_trains_while_the_parent_does(method):
    case = dict(seed=3, env_name="puffer_breakout", rnn_name="MinGRU")
    trainer = make_trainer(**case)
    iterate(trainer, 1)
    context = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    child = context.Process(target=train_in_child, args=(case, results))
    child.start()
    own = iterate(trainer, 2)
    child.join(600)
    assert child.exitcode == 0
    assert results.get() == own.tolist()
    trainer.close()


def test_a_forked_child_may_not_use_the_parents_trainer():
    trainer = make_trainer()
    iterate(trainer, 1)
    child = os.fork()
    if child == 0:
        try:
            trainer.evaluate()
        except APIUsageError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    iterate(trainer, 1)
    trainer.close()
