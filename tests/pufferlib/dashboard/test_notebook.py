"""The panel in a notebook: one output of a cell, which is replaced."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich import get_console

from pufferlib.dashboard.panel import Dashboard

CellOutput = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})


class Cell:
    """What IPython shows below a cell; stands for the module IPython.display."""

    def __init__(self):
        self.outputs = []

    def display(self, content, display_id):
        assert display_id is True
        self.outputs.append(content)
        return SimpleNamespace(update=lambda content: self.outputs.__setitem__(-1, content))


@pytest.fixture
def cell(monkeypatch):
    cell = Cell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=cell))
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    return cell


def test_a_cell_is_no_other_stream():
    is_panel = [Dashboard("", {}, 100, stream).is_panel for stream in (CellOutput(), io.StringIO())]
    assert is_panel == [True, False]


def test_one_panel_is_replaced(cell):
    stream = CellOutput()
    dashboard = Dashboard("puffer_squared", {"device": "cpu"}, 100, stream)
    assert dashboard.is_panel
    dashboard.show({"agent_steps": 10})
    dashboard.show({"agent_steps": 50, "environment/score": 0.625})
    dashboard.close()
    (panel,) = cell.outputs
    content = panel._repr_mimebundle_((), ())  # as IPython asks for it
    assert content["text/html"].count("<pre") == 1 and "background-color: #061818" in content["text/html"]
    for text in content.values():
        assert "puffer_squared" in text and "0.625" in text and "\x1b" not in text
    assert {len(line) for line in content["text/plain"].splitlines()} == {get_console().width}
    assert stream.getvalue() == ""


def test_the_next_panel_has_an_output_of_its_own(cell):
    for _ in range(2):
        Dashboard("puffer_squared", {}, 100, CellOutput()).show({"agent_steps": 10})
    assert len(cell.outputs) == 2
