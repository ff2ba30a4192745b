"""The notebook runs from its first cell to its last, and shows what it says."""

import json
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def test_it_is_kept_without_outputs():
    cells = json.loads(PATH.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert "%pip install" in "".join(code[0]["source"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
def test_it_trains_plots_and_shows_videos(in_tmp_path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="it runs notebooks; pip install -e '.[test]'")
    for name in ("ipykernel", "matplotlib", "imageio_ffmpeg", "raylib"):
        pytest.importorskip(name, reason="the notebook needs it")
    import nbformat

    notebook = nbformat.read(PATH, 4)
    nbclient.NotebookClient(notebook, timeout=600).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    panels, videos = ([page for page in pages if sign in page] for sign in ("PufferLib", "<video"))
    assert len(panels) == 1 and "puffer_cartpole" in panels[0]  # redrawn, not one for every log
    assert len(videos) == 2 and all("data:video/mp4;base64," in video for video in videos)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    (folder,) = (tmp_path / "experiments").iterdir()
    assert json.loads((folder / "best.json").read_text())["eval/return_mean"] > 400
