"""Fuzzers of what is read from files and command lines, by Atheris: `python tests/fuzz/python_targets.py NAME [flags]`.

    settings      an ini, a run's config.json or flags, as `puffer train` takes them, then the check of all settings
    checkpoint    a file of weights or of a trainer's state, as it is or as the pickle inside of a sound archive

Flags are libFuzzer's, and `--broken=NAME` for one of BROKEN, which the target must find.

An input is taken, or refused in one sentence of the library's own errors. An audit hook watches meanwhile: nothing
may be evaluated, imported, started, connected to or written.
"""

from __future__ import annotations

import codecs
import contextlib
import copy
import functools
import importlib
import io
import json
import os
import pickle
import sys
import tempfile
import typing
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import atheris
import torch

READERS = ["pufferlib.config", "pufferlib.settings", "pufferlib.runs"]
with atheris.instrument_imports(include=READERS, enable_loader_override=False):
    import pufferlib
    from pufferlib import PuffeRL, config, distributed, errors, ocean, setting, setting as values
    from pufferlib.config import configuration
    from pufferlib.config.sections import ARGUMENTS, SECTIONS, section_settings
    from pufferlib.families import catalog
    from pufferlib.runs import checkpoint, description
    from pufferlib.runs.checkpoint import load_checkpoint_file, read_checkpoint_folder
    from pufferlib.runs.folder import read_facts

PACKAGE = Path(ocean.__file__).parents[1]
ENVIRONMENTS = ("puffer_squared", "puffer_breakout", "puffer_go")
EVALUATING = ("exec", "pickle.find_class", "code.__new__")
REACHING = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.__new__", "socket.connect")
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink", "shutil.rmtree")
FORBIDDEN = frozenset((*EVALUATING, *REACHING, *CHANGING, "ctypes.dlopen", "os.putenv"))


class Broken(BaseException):
    """What must never happen; no `except Exception` of the library takes it."""


class Watch:
    """An audit hook that cannot be taken out again, and so is switched."""

    def __init__(self):
        self.is_on = False
        self.seen: str | None = None
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple) -> None:
        if self.is_on and _is_forbidden(event, arguments):
            self.seen = f"{event} {str(arguments)[:120]}"
            raise Broken(self.seen)

    def during(self, read: Callable[[], Any]) -> bool:
        """Reads something, and says whether it was taken; what the library refuses must be one sentence."""
        self.seen, self.is_on = None, True
        try:
            read()
        except errors.PufferError as error:
            sentence = str(error)
        else:
            sentence = "taken"
        finally:
            self.is_on = False
        if self.seen is not None:  # where something on the way took the exception for its own
            raise Broken(self.seen)
        if not sentence or "\n" in sentence:
            raise Broken(f"expected one sentence, got {sentence!r}")
        return sentence == "taken"


def _is_forbidden(event: str, arguments: tuple) -> bool:
    if event == "open":
        return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if event == "import":  # a codec, say: parts of what is loaded
        return arguments[0].partition(".")[0] not in sys.modules
    if event == "exec":  # typing evaluates the library's annotations; the frame of this hook stands two above
        evaluating = sys._getframe(2).f_code.co_filename
        return evaluating != typing.__file__ and not evaluating.startswith("<frozen importlib")
    return event in FORBIDDEN


# ------------------------------------------------------------------------------------------------------------ settings


def remember_what_no_input_changes() -> None:
    """The lists of environments and what the package's own inis say, which take most of the time of reading others."""
    ocean.names = functools.cache(ocean.names)
    catalog.lookup, catalog.find = functools.cache(catalog.lookup), functools.cache(catalog.find)
    check, read = configuration.check_section, configuration.read_ini
    own, remembered = {}, {}  # the files of the package, and their sections by where they stand in memory

    def read_ini(path: Path) -> dict[str, dict[str, str]]:
        if PACKAGE not in path.parents:
            return read(path)
        if path not in own:
            own[path] = read(path)
        return own[path]

    def check_section(section: str, given: Any, env: Any, are_texts: bool = False) -> dict[str, Any]:
        if not any(given is each for found in own.values() for each in found.values()):
            return check(section, given, env, are_texts)
        key = id(given), env.name
        if key not in remembered:
            remembered[key] = check(section, given, env, are_texts)
        return copy.deepcopy(remembered[key])

    configuration.read_ini, configuration.check_section = read_ini, check_section


class Settings:
    """The first byte says which environment, and whether the rest is a file or flags, separated by lines."""

    def __init__(self, folder: Path):
        self.folder = folder
        remember_what_no_input_changes()
        for name in ENVIRONMENTS:  # what is imported by need is so before anybody watches
            for policy, recurrent in (("Default", None), ("Convolutional", "LSTM"), ("Default", "MinGRU")):
                args = config.load_config(name)
                config.check_config({**args, "policy_name": policy, "rnn_name": recurrent, "policy": {}, "rnn": {}})

    @staticmethod
    def seeds() -> Iterator[bytes]:
        """Inputs to begin with: a description of a run, flags of every kind, an ini."""
        args = config.load_config("puffer_squared")
        yield b"\x04" + json.dumps({"settings": args}).encode()
        yield b"\x04[train]\nlearning_rate = 0.1\nseed = 1e6\n[env]\nsize = 7 # cells\n[log]\ntags = ['a', 'b']\n"
        yield b"\x05[base]\nenv_name = puffer_breakout\nrnn_name = None\n[sweep.train.gamma]\nmin = 0.1x\nmax = .9\n"
        yield b"\x00--train.seed\n3\n--rnn-name=LSTM\n--train.anneal-lr\n--env.size\n(1, 2)"
        yield b"\x02--sweep.train.learning-rate.max\n0.1\n--policy.hidden_size\n64\n--vec.num-envs\nauto"

    @staticmethod
    def words() -> Iterator[str]:
        """What an input is put together from."""
        for section in (*SECTIONS, *ARGUMENTS):
            yield from (f"[{section}]\n", f"--{section}.", f'"{section}": {{')
            for name, setting in (section_settings(section, catalog.find("puffer_breakout")) or {}).items():
                yield from (name, setting.flag)
        yield from (
            "= ",
            "auto",
            "None",
            "True",
            "1e999",
            "nan",
            "9" * 400,
            "[[[[",
            "__import__('os')",
            "[sweep.train.",
        )

    def take(self, content: bytes, watch: Watch) -> None:
        choice = content[0] if content else 0
        env_name, is_file = ENVIRONMENTS[choice % 3], choice & 4
        if is_file:
            path = self.folder / "settings"
            path.write_bytes(content[1:])
            watch.during(lambda: self._check(config.load_config(env_name, config=path)))
        else:
            flags = content[1:].decode("utf-8", "surrogateescape").split("\n")
            flags = [flag for flag in flags if not flag.startswith("--config")]
            watch.during(lambda: self._check(config.load_config(env_name, argv=flags)))

    @staticmethod
    def _check(args: dict) -> None:
        """What was read has plain values, which a run's config.json holds, and is the same when it is read again."""
        config.check_config(args)
        text = json.dumps(args, default=str)
        if json.loads(text).keys() != args.keys():
            raise Broken("settings do not survive a config.json")


# ---------------------------------------------------------------------------------------------------------- checkpoint


class Checkpoint:
    """The first byte says what the rest is: a file, the pickle of an archive whose tensors are sound, or a note."""

    def __init__(self, folder: Path):
        os.chdir(folder)
        env = pufferlib.make("puffer_squared", num_envs=2)
        self.trainer = PuffeRL(env, None, batch_size=16, bptt_horizon=8, device="cpu", normalize_rewards=True)
        self._train()
        self.trainer.save_checkpoint()
        self.trainer.save_checkpoint("one.pt")
        self.parts, self.ranks = self.trainer._parts, distributed.connect()
        self.folder = Path(self.trainer.run_folder)
        self.weights, self.state = next(self.folder.glob("model_*.pt")), self.folder / checkpoint.TRAINER_STATE
        self.given = [Path("weights.pt"), self.state, Path("one.pt")]
        self.given[0].write_bytes(self.weights.read_bytes())
        self.readers = [self._read_weights, self._read_state, self._read_one]
        self.sound = [path.read_bytes() for path in self.given]
        self.records = [_records(path) for path in self.given]
        codecs.lookup("cp437")  # of names in an archive
        repr(torch.zeros(1))  # as torch's messages show one
        for read in self.readers:  # what is imported by need is so before anybody watches
            read()

    def seeds(self) -> Iterator[bytes]:
        """Inputs to begin with: the pickles of sound files, one that calls something, a note."""
        yield from (bytes([kind]) + records["data.pkl"] for kind, records in enumerate(self.records))
        yield from (bytes([kind]) + pickle.dumps(Caller(), protocol=2) for kind in range(3))
        yield b"\x04" + _archive({"data.pkl": pickle.dumps({}, protocol=2), "version": b"3", "byteorder": b"little"})
        yield b'\x03{"env": "puffer_squared", "settings": {"env_name": "puffer_squared"}, "policy_class": "Own"}'

    @staticmethod
    def words() -> Iterator[str]:
        """What a pickle is put together from: opcodes with names."""
        yield from ("ctorch._utils\n_rebuild_tensor_v2\n", "cbuiltins\neval\n", "cposix\nsystem\n", "ctorch\nSize\n")
        yield from (
            "ccollections\nOrderedDict\n",
            "ctorch\nFloatStorage\n",
            "ctorch\nQInt8Storage\n",
            "nan",
            "Infinity",
        )
        yield from ("ctorch._utils\n_rebuild_sparse_tensor\n", "ctorch._utils\n_rebuild_parameter\n", "cpu", "cuda:0")

    def take(self, content: bytes, watch: Watch) -> None:
        choice, rest = content[0] if content else 0, content[1:]
        kind = choice % 4
        if kind == 3:
            for name in ("best.json", "config.json"):
                (self.folder / name).write_bytes(rest)
            watch.during(self._read_notes)
            return
        path, is_raw = self.given[kind], choice & 4
        path.write_bytes(rest if is_raw else _archive({**self.records[kind], "data.pkl": rest}))
        is_taken = watch.during(self.readers[kind])
        path.write_bytes(self.sound[kind])
        if is_taken and kind != 1:
            self._go_on()

    def _read_weights(self) -> None:
        checkpoint.load_policy_weights(self.parts.policy, self.given[0])

    def _read_state(self) -> None:
        read_checkpoint_folder(self.folder, "puffer_squared", self.parts, self.ranks)

    def _read_one(self) -> None:
        load_checkpoint_file(self.given[2], self.parts, self.ranks)

    def _train(self) -> None:
        self.trainer.evaluate()
        self.trainer.train()

    def _go_on(self) -> None:
        """What was taken is trained from, or said to be none that one can train from; then all is as before."""
        with contextlib.suppress(errors.DivergedError):
            self._train()
        self.trainer.load_checkpoint(self.folder)

    def _read_notes(self) -> None:
        if not isinstance(read_facts(self.folder / "best.json"), dict):
            raise Broken("a note is no dict")
        described = self.folder / "config.json"
        description.read_description(described, "puffer_squared")


def _records(path: Path) -> dict[str, bytes]:
    """The parts of an archive that torch wrote, without the folder they are in."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _archive(records: dict[str, bytes]) -> bytes:
    """What torch.load takes, with the right checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


class Caller:
    """Its pickle calls a function, and is harmless."""

    def __reduce__(self):
        return os.getcwd, ()


# -------------------------------------------------------------------------------------------------------------- broken


def evaluate_settings() -> None:
    """Values of settings are expressions."""

    def parse_value(text: str) -> Any:
        try:
            return eval(text)
        except Exception:
            return text

    values.parse_value = setting.parse_value = parse_value


def load_anything() -> None:
    """Checkpoints are unpickled whole."""
    checkpoint.read_archive = lambda file, has_numbers=True: torch.load(file, weights_only=False)


def let_errors_through() -> None:
    """A file that is no ini raises what its parser raises."""
    configuration.configparser.Error = KeyError


def check_nothing() -> None:
    """What was loaded is used as it is."""
    places = ("pufferlib.runs.checkpoint", "pufferlib.runs.checkpoint", "pufferlib.runs.checkpoint")
    for module in map(importlib.import_module, places):
        for name in ("check_policy_weights", "check_trainer_state", "compare"):
            if hasattr(module, name):
                setattr(module, name, lambda *args: None)


BROKEN = {
    function.__name__: function for function in (evaluate_settings, load_anything, let_errors_through, check_nothing)
}
TARGETS = {"settings": Settings, "checkpoint": Checkpoint}


def begin(target: Settings | Checkpoint, folder: Path) -> list[str]:
    """Writes the first inputs and the words into a folder; returns the flags that name them."""
    inputs, dictionary = folder / "seeds", folder / "words"
    inputs.mkdir()
    for index, content in enumerate(target.seeds()):
        (inputs / str(index)).write_bytes(content)
    lines = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in dict.fromkeys(target.words()))
    dictionary.write_text("".join(f'"{line}"\n' for line in lines if len(line) < 4 * 64))
    return [f"-dict={dictionary}", str(inputs)]


def main(name: str, *flags: str) -> None:
    """Runs a target; see the top."""
    warnings.simplefilter("ignore")
    broken = [flag.partition("=")[2] for flag in flags if flag.startswith("--broken=")]
    places = [str(Path(flag).absolute()) for flag in flags if not flag.startswith("-")]
    rest = [flag for flag in flags if flag.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        watch, target = Watch(), TARGETS[name](Path(folder))
        # A single input, or a merge, is of what is given alone.
        is_search = all(Path(place).is_dir() for place in places) and not any("merge=1" in flag for flag in rest)
        first = begin(target, Path(folder)) if is_search else []
        for each in broken:
            BROKEN[each]()
        places = places or [tempfile.mkdtemp(dir=folder)]
        atheris.Setup([sys.argv[0], *rest, *places, *first], lambda content: target.take(content, watch))
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
