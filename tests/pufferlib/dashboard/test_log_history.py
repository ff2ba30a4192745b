import math
import tracemalloc

from pufferlib.dashboard.report import LogHistory


def log(step):
    named = {f"{section}/{name}": step / 7 for section in ("losses", "performance", "episode") for name in range(20)}
    return {"agent_steps": 2**52 + step, "epoch": step, "sps": math.inf, **named}


def test_logs_come_back_as_they_were():
    history = LogHistory()
    logs = [log(1), {"agent_steps": 2, "loss": math.pi}, {}, log(2)]
    for one in logs:
        history.add(one)
    assert history.logs() == logs
    assert [type(value) for value in history.logs()[0].values()] == [type(value) for value in logs[0].values()]


def test_a_log_takes_little_memory():
    history = LogHistory()
    history.add(log(0))
    tracemalloc.start()
    for step in range(100):
        history.add(log(step))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100 < 1000
