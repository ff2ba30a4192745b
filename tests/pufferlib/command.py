"""Runs the command line in a process of its own, forked from a server that has imported torch already."""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["pufferlib.pufferl", "pufferlib.play.scores", "pufferlib.models"])

# Asks the server for a process with this one's folder, variables, arguments and files, and ends as it ends.
CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode()], [0, 1, 2])
sys.exit(int(server.recv(8)))
"""

TIMES = ("sps", "uptime", "iteration_seconds", "performance/", "hardware/")


def start(folder, *arguments, variables=None, suffix=""):
    """Starts `puffer ARGUMENTS` in a folder; its output goes to the files `stdout` and `stderr` there."""
    texts = [str(argument) for argument in arguments]
    process = context.Process(target=_run, args=(str(folder), texts, variables or {}, suffix))
    process.start()
    return process


def run(folder, *arguments):
    """Runs `puffer ARGUMENTS` in a folder; returns the exit code and what it wrote to stderr."""
    process = start(folder, *arguments)
    process.join(600)
    assert process.exitcode is not None, "the command did not end"
    return process.exitcode, Path(folder, "stderr").read_text()


def start_code(folder, code, *arguments):
    """Starts Python code in a folder, without a display; its output goes to the files `stdout` and `stderr` there."""
    process = context.Process(target=_run_code, args=(str(folder), code, [str(argument) for argument in arguments]))
    process.start()
    return process


def run_code(folder, code, *arguments):
    """Runs Python code in a folder, without a display; returns the exit code and what it wrote to stdout and stderr."""
    process = start_code(folder, code, *arguments)
    process.join(600)
    assert process.exitcode is not None, "the code did not end"
    return process.exitcode, *(Path(folder, name).read_text() for name in ("stdout", "stderr"))


@functools.cache
def program():
    """Makes a folder with a program `puffer`, for shells; it is removed when this process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address := f"{folder.name}/server")
    server.listen()
    client = Path(folder.name, "puffer")
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    return folder


def _serve(server):
    while True:
        client, _ = server.accept()
        with client:
            context.Process(target=_answer, args=(client,)).start()


def _answer(client):
    message, files, *_ = socket.recv_fds(client, 1 << 20, 3)
    folder, variables, arguments = json.loads(message)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for number, file in enumerate(files):
        os.dup2(file, number)
    _open_streams()
    if variables.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    sys.argv = ["puffer", *arguments]
    _main(None, lambda code: client.sendall(str(code).encode()))


def _run_code(folder, code, arguments):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        os.environ.pop(name, None)
    _write_to_files(folder, "")
    sys.argv = ["-c", *arguments]
    exec(compile(code, "the code of a test", "exec"), {"__name__": "__main__"})


def _write_to_files(folder, suffix):
    os.chdir(folder)
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(name + suffix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    _open_streams()


def _open_streams():
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)


def _run(folder, arguments, variables, suffix):
    os.environ.update(variables)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    _write_to_files(folder, suffix)
    _main(arguments)


def _main(arguments, tell=lambda code: None):
    from pufferlib.cli import main

    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    tell(code)
    os._exit(code)


def only_run(folder):
    """The folder of the one run in `folder/experiments`."""
    (path,) = Path(folder, "experiments").iterdir()
    return path


def metrics(run_folder):
    """The lines of metrics.jsonl, without what measures time."""
    lines = [json.loads(line) for line in Path(run_folder, "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith(TIMES)} for line in lines]
