import shutil

import pytest

from pufferlib.fast import followed


def test_the_kernels_compute_what_the_files_of_ppo_say():
    files = [f"pufferlib/{name}" for name in followed.stale_files()]
    assert not files, (
        f"{' and '.join(files)} changed, so that policies train by torch where a kernel was several times faster. Have "
        "ppo_row.h, decision_row.h, network.cpp and ppo.cu in extensions/ compute the same, with derivatives, and sign "
        "that by `python -m pufferlib.fast.followed`. Leave it unsigned where training by torch is what you want."
    )


@pytest.fixture
def signature_after(tmp_path):
    """The signature of a copy of losses.py in which something was replaced."""

    def sign(old, new):
        path = tmp_path / "losses.py"
        shutil.copy(followed.losses.__file__, path)
        source = path.read_text()
        assert old in source
        path.write_text(source.replace(old, new))
        return followed._hash(path)

    return sign


SIGNED = followed.hashes()["ppo/losses.py"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("value_loss = 0.5 *", "value_loss = 0.25 *"),
        ("1.0 + clip_coef", "1.0 + 2.0 * clip_coef"),
        ("torch.max(", "torch.min("),
        ("    ent_coef: float,\n", "    ent_coef: float,\n    kl_coef: float,\n"),
    ],
)
def test_another_loss_has_another_signature(signature_after, old, new):
    assert signature_after(old, new) != SIGNED


@pytest.mark.parametrize(
    "old, new",
    [
        ("    logratio =", "    # Of the new policy to the old one.\n    logratio ="),
        ('    """The loss of one minibatch."""', '    """The loss\n\n    of one minibatch."""'),
        ("import torch\n", "import torch\nimport math\n"),
    ],
)
def test_comments_docstrings_and_imports_are_not_signed(signature_after, old, new):
    assert signature_after(old, new) == SIGNED


def test_an_edited_file_is_named(monkeypatch, tmp_path):
    signatures = tmp_path / "followed.txt"
    signatures.write_text(followed.HASHES.read_text().replace(SIGNED, "0" * 16))
    monkeypatch.setattr(followed, "HASHES", signatures)
    monkeypatch.setattr(followed, "stale_files", followed.stale_files.__wrapped__)
    assert followed.stale_files() == ("ppo/losses.py",)
    followed.update_hashes()
    assert followed.stale_files() == ()
