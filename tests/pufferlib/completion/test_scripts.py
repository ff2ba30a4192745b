"""What the shells make of their scripts: somebody types, and presses TAB."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from pufferlib import cli
from pufferlib.completion import SHELLS

PROGRAM = Path(sysconfig.get_path("scripts"), "puffer")
LOAD = {
    "bash": 'eval "$({} completion bash)"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$({} completion zsh)"',
    "fish": "{} completion fish | source",
}
START = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
CONTROL = re.compile(r"\x1b\[[0-9;?=>]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[=>]|\x1b\([B0]|[\x00-\x09\x0b-\x1f]")
TYPED = {
    "puffer tra": "in ",
    "puffer train puffer_sq": "uared ",
    "puffer train puffer_squared --train.opt": "imizer ",
    "puffer train puffer_squared --tr": "ain.",
    "puffer train puffer_squared --train.optimizer=mu": "on ",
    "puffer train puffer_squared --config my_se": "ttings.ini ",
    "puffer train pettingzoo:classic/conn": "ect_four_v3 ",
}


def require(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.fixture(autouse=True)
def in_a_folder_with_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"])))
    Path("my_settings.ini").touch()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_of_its_shell_and_says_how_to_install_it(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert f"puffer completion {shell}" in "".join(text.splitlines()[:4])
    require(shell)
    done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_shell_without_a_script_is_refused(capsys):
    assert cli.main(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == "puffer: there is no completion for the shell 'tcsh'; there are bash, zsh, fish\n"
    assert cli.main(["completion"]) == 2
    assert "puffer completion takes one SHELL" in capsys.readouterr().err


def in_bash(line):
    """What bash's function finds for a line, by the variables that bash sets for it."""
    code = f"""{LOAD["bash"].format(PROGRAM)}
        COMP_LINE={line!r} COMP_POINT={len(line)} COMP_WORDS=({PROGRAM}) COMP_WORDBREAKS=' =:'
        _puffer; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=600)
    return done.stdout.split()


@pytest.mark.slow
def test_bash():
    require("bash")
    assert in_bash("puffer tra") == ["train"]
    assert in_bash("puffer train puffer_squared --train.optimizer ") == ["muon", "adam", "sgd"]
    assert in_bash("puffer train puffer_squared --train.optimizer=") == ["muon", "adam", "sgd"]
    assert "classic/go_v5" in in_bash("puffer train pettingzoo:") or "tictactoe" not in str(in_bash("puffer train pe"))
    assert in_bash("puffer train puffer_squared --config ") == []


class Typist:
    """Somebody at a shell's terminal."""

    def __init__(self, shell):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="xterm", PS1="$ ", PROMPT="$ ")
            os.execvp(shell, [shell, *START[shell]])

    def type(self, keys, expected, seconds=60.0):
        """Types, and waits until the terminal shows something; returns whether it did."""
        os.write(self.terminal, keys.encode())
        written, end = b"", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.1)[0]:
                chunk = os.read(self.terminal, 65_536)
                written += chunk
                if b"\x1b[0c" in chunk or b"\x1b[c" in chunk:
                    os.write(self.terminal, b"\x1b[?62;c")  # fish asks what terminal it is, and waits
            if expected in CONTROL.sub("", written.decode(errors="replace")):
                return True
        return False

    def leave(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_somebody_presses_tab(shell):
    require(shell)
    pytest.importorskip("pettingzoo", reason="one of the lines names an environment of it")
    typist = Typist(shell)
    try:
        assert typist.type(LOAD[shell].format(PROGRAM) + "; echo lo''aded\n", "loaded")
        for line, rest in TYPED.items():
            assert typist.type(f"{line}\t", line + rest), line
            assert typist.type("\x15echo do''ne\n", "done")  # the line is taken back
    finally:
        typist.leave()
