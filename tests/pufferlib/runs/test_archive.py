"""A checkpoint is read as torch reads it, and its outline without its numbers."""

import struct
import zipfile
from collections import OrderedDict

import hostile_files
import pytest
import torch
from torch import nn

from pufferlib.errors import CheckpointError
from pufferlib.runs import checkpoint
from pufferlib.runs.checkpoint import load


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.pt"


def write(path, pickled):
    hostile_files.archive(path, b"\x80\2" + pickled)


def is_described(outlined, found):
    """Whether the outline is what torch loads, but for the numbers."""
    if isinstance(found, torch.Tensor):
        same = (outlined.dtype, outlined.shape, outlined.stride()) == (found.dtype, found.shape, found.stride())
        return same and outlined.is_meta
    if isinstance(found, dict):
        return list(outlined) == list(found) and all(is_described(outlined[key], found[key]) for key in found)
    if isinstance(found, (list, tuple)):
        return len(outlined) == len(found) and all(map(is_described, outlined, found))
    return type(outlined) is type(found) and outlined == found


def is_equal(found, expected):
    if isinstance(expected, torch.Tensor):
        same = (found.dtype, found.stride()) == (expected.dtype, expected.stride())
        return same and torch.equal(found, expected)
    if isinstance(expected, dict):
        same = vars(found) == vars(expected) if isinstance(expected, OrderedDict) else True
        return same and list(found) == list(expected) and all(is_equal(found[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(is_equal, found, expected))
    return type(found) is type(expected) and found == expected


CONTENTS = [
    {},
    [1, -1, 255, 256, 65_536, -(2**31), 2**40, -(2**70), 0.5, None, True, False, "", "é", "\ud800", "x" * 300, ()],
    {"a": {"b": [[], {}, [{"c": (1, (2, 3))}]]}, 3: "integers are keys of older files"},
    {f"name {number}": number for number in range(3000)},
    list(range(3000)),
    nn.LSTM(3, 4).state_dict(),
    nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).state_dict(),
    dict(nn.Linear(2, 3).named_parameters()),
    [torch.zeros(3, 4).t(), torch.zeros(10)[2:5], torch.zeros(0, 3), torch.zeros(4)[::2], torch.zeros(1).expand(50)],
    torch.tensor(1.5),
    [torch.zeros(2, dtype=each) for each in (torch.uint8, torch.int16, torch.int64, torch.bool, torch.bfloat16)],
    [torch.zeros(2, dtype=each) for each in (torch.float16, torch.float64, torch.complex64, torch.int8, torch.int32)],
    [torch.zeros(2)] * 3,
]


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_an_outline_is_what_torch_loads(path, content):
    checkpoint.save(path, content)
    found = load(path)
    assert is_described(load(path, has_numbers=False), found)
    assert is_equal(found, torch.load(path, weights_only=True))


def test_a_tensor_in_two_places_counts_as_often_as_it_is_told(path):
    shared = torch.zeros(4)
    checkpoint.save(path, {"whole": shared, "part": shared[1:]})
    assert {name: len(tensor) for name, tensor in load(path, has_numbers=False).items()} == {"whole": 4, "part": 3}
    found = load(path)
    found["whole"] += 1
    assert found["part"].tolist() == [1, 1, 1]


def quantized():
    return torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)


OTHERS = {
    "sparse": (lambda: torch.zeros(3).to_sparse(), "_rebuild_sparse_tensor"),
    "quantized": (quantized, "_rebuild_qtensor"),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "_rebuild_nested_tensor"),
    "meta": (lambda: torch.zeros(3, device="meta"), "_rebuild_meta_tensor"),
    "expanded": (lambda: torch.zeros(1).expand(2**16 + 1), "more numbers than are stored"),
    "a set": (lambda: {1, 2}, ""),
    "bytes": (lambda: b"bytes", "_codecs.encode"),
    "a dtype": (lambda: torch.float32, "torch.float32"),
    "a shape": (lambda: torch.Size([2]), "torch.Size"),
    "a class": (lambda: OrderedDict, ""),
    "a key that is a tuple": (lambda: {(1, 2): 3}, "keys of its dicts"),
    "a key that is None": (lambda: {None: 3}, "keys of its dicts"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_other_things_are_named(path, name):
    make, words = OTHERS[name]
    checkpoint.save(path, {"weights": make()} if "key" not in name else make())
    with pytest.raises(CheckpointError, match=f"is damaged or no checkpoint .*{words}.*; use an earlier one"):
        load(path)


def attributes(**values):
    """Weights with attributes of their dict."""
    made = OrderedDict(a=torch.zeros(2))
    vars(made).update(values)
    return made


@pytest.mark.parametrize(
    "values", [{"values": 3}, {"_metadata": 3}, {"_metadata": {"": 3}}, {"_metadata": {"": {"version": "x"}}}]
)
def test_the_attributes_of_a_dict_replace_none_of_its_methods(path, values):
    checkpoint.save(path, attributes(**values))
    with pytest.raises(CheckpointError, match="must have no attributes but the versions of modules"):
        load(path)


BOMBS = {
    "marks": b"(" * 100_000 + b".",
    "lists": b"](" + b"]" * 2**19 + b"e.",
    "levels": b"]" * 600 + b"a" * 599 + b".",
    "a list in itself": b"]q\0h\0a.",
    "doubled lists": b"](]q\0" + b"".join(b"]q%c(h%ch%ce" % (n + 1, n, n) for n in range(60)) + b"e.",
    "a deep name of a part": b"(X\7\0\0\0storagectorch\nFloatStorage\n)" + b"\x85" * 100_000 + b"X\0\0\0\0K\0tQ.",
    "a text without end": b"X\xff\xff\xff\xffx.",
    "nothing": b"",
    "no end": b"}",
    "an unknown instruction": b"i.",
    "bytearray": b"cbuiltins\nbytearray\n\x8a\5\0\0\0\0\x04\x85R.",
    "a tensor of a size": b"ctorch\nTensor\n\x8a\5\0\0\0\0\x04\x85R.",
    "a set": b"\x8f.",
    "what was not kept": b"h\7.",
    "an empty stack": b"a.",
}


@pytest.mark.quick("a list in itself", "an unknown instruction", "no end", "bytearray", "levels")
@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_that_torch_never_wrote(path, name):
    write(path, BOMBS[name])
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(path)


@pytest.mark.parametrize(
    ("numbers", "shape", "strides"),
    [
        (2, (2,), (1,)),
        (1, (2,), (1,)),
        (1, (2**62,), (0,)),
        (1, (-1,), (1,)),
        (1, (1,), (1, 1)),
        (1, (2**62, 2**62), (0, 0)),
        (-1, (1,), (1,)),
    ],
)
def test_a_tensor_has_the_numbers_that_are_stored(path, numbers, shape, strides):
    hostile_files.archive(path, hostile_files.tensor(1, (1,), (1,)), part0=bytes(4))
    assert load(path)["a"].tolist() == [0.0]
    hostile_files.archive(path, hostile_files.tensor(numbers, shape, strides), part0=bytes(4))
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(path)


def test_parts_that_lie_over_each_other(path):
    """Two names of the same bytes take as much memory as two parts."""
    checkpoint.save(path, {"a": torch.zeros(1000), "b": torch.zeros(1000)})
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        first, second = (archive.getinfo(f"archive/data/{name}").header_offset for name in "01")
    end = content.rindex(struct.pack("<L", second))
    path.write_bytes(content[:end] + struct.pack("<L", first) + content[end + 4 :])
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        load(path)


def test_a_file_that_memory_has_no_room_for(path, monkeypatch):
    checkpoint.save(path, {"a": torch.zeros(10_000)})
    monkeypatch.setattr(checkpoint, "usable_memory_bytes", lambda: 10_000)
    with pytest.raises(CheckpointError, match="larger than the memory of this machine"):
        load(path)
