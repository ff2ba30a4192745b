"""Several processes of one machine that train together, set up as torchrun does it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import traceback

import command

PATIENCE_SECONDS = 600
PORTS = itertools.cycle(range(20_000 + os.getpid() % 250 * 50, 32_768))


def variables(count, port=None, **more):
    """The environment variables of each rank."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port()), "WORLD_SIZE": str(count), **more}
    common.setdefault("LOCAL_WORLD_SIZE", str(count))
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def free_port():
    """One below those that a system gives to others, and of this process, so that none takes it before it is used."""
    while True:
        port = next(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def start(folder, *arguments, count=2, **more):
    """Starts `puffer ARGUMENTS` as `count` processes; rank i writes to the files `stdout.i` and `stderr.i`."""
    return [
        command.start(folder, *arguments, variables=one, suffix=f".{rank}")
        for rank, one in enumerate(variables(count, **more))
    ]


def finish(processes, folder):
    """Waits for all; returns the exit code and the errors of each."""
    for process in processes:
        process.join(PATIENCE_SECONDS)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert None not in codes, "a rank did not end"
    return [(code, (folder / f"stderr.{rank}").read_text()) for rank, code in enumerate(codes)]


def run(folder, *arguments, count=2, **more):
    """Runs `puffer ARGUMENTS` as `count` processes to the end."""
    return finish(start(folder, *arguments, count=count, **more), folder)


def call(function, *arguments, count=2):
    """Calls `function(*arguments)` in every rank; returns the results by rank. The function must be importable."""
    results, workers = [], []
    for one in variables(count):
        receiver, sender = command.context.Pipe(duplex=False)
        worker = command.context.Process(target=_call, args=(sender, one, os.getcwd(), function, arguments))
        worker.start()
        sender.close()
        workers.append((worker, receiver))
    try:
        for worker, receiver in workers:
            assert receiver.poll(PATIENCE_SECONDS), "a rank did not answer"
            is_fine, result = receiver.recv()
            assert is_fine, result
            results.append(result)
            worker.join(PATIENCE_SECONDS)
    finally:
        for worker, _ in workers:
            worker.kill()
    return results


def _call(sender, environment, folder, function, arguments):
    os.environ.update(environment)
    os.chdir(folder)
    try:
        sender.send((True, function(*arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))
