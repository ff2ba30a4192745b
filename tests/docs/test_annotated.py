"""The page with the trainer's source: nothing of it is lost, and no formula speaks of what the code has not."""

from __future__ import annotations

import functools
import html
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("pygments", reason="comes with the extra docs")
from docs.pages import annotated

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "trainer").glob("*.md") if page.name != "index.md")
# As in docs/build.py, but for the links.
ITEM = re.compile(r"^- \[(?P<path>[\w/.]+)\]", re.MULTILINE)
SHOWN = [match["path"] for page in PAGES for match in ITEM.finditer(page.read_text())]
LINE = re.compile(r'<span class="line" id="(?P<module>[\w.]+)-(?P<number>\d+)">(?P<code>.*)</span>$', re.MULTILINE)
NUMBER = re.compile(r'<a class="linenos"[^>]*>(\d+)</a>')


@functools.cache
def page_of(path: str) -> str:
    return annotated.section(ROOT, path, "link")


def code_on_page(text: str) -> dict[int, str]:
    """Lines by the numbers that are shown beside them."""
    found = {}
    for match in LINE.finditer(text):
        assert NUMBER.search(match["code"])[1] == match["number"]
        bare = re.sub(r"<[^>]+>", "", NUMBER.sub("", match["code"]))
        found[int(match["number"])] = html.unescape(bare)
    return found


def written(tmp_path: Path, *lines: str, name: str = "code.py") -> str:
    """The page of a file of these lines."""
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return annotated.with_source(f"- [{name}](https://example.org/{name})\n", tmp_path)


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_has_every_line_of_a_file_under_its_number(path):
    source = (ROOT / path).read_text()
    page = page_of(path)
    shown = code_on_page(page)
    prose, first = annotated.opening(path, source)
    assert prose in page
    hidden = {number for number, comment in annotated.comments(path, source) if "LaTeX:" in comment}
    for number, line in enumerate(source.splitlines(), 1):
        if number >= first and number not in hidden and line.strip():
            assert shown.pop(number) == line
        else:
            assert not shown.pop(number, "").strip()
    assert not shown


@pytest.mark.parametrize("path", SHOWN)
def test_every_formula_of_a_file_stands_above_the_line_that_it_stands_above_there(path):
    source = (ROOT / path).read_text()
    lines = source.splitlines()
    page = page_of(path)
    place = 0
    for formula in annotated.checked_formulas(path, source):
        place = page.index(f"$$\n{formula.tex}\n$$", place) + 1
        below = formula.last
        while "LaTeX:" in lines[below]:
            below += 1
        number = next(match["number"] for match in LINE.finditer(page, place))
        assert int(number) == below + 1


def test_the_trainer_has_formulas_for_what_it_computes():
    places = {}
    for path in SHOWN:
        source = (ROOT / path).read_text()
        places[path] = len(annotated.checked_formulas(path, source))
    without = {"actor.py", "collector.py"}
    assert {Path(path).name for path, count in places.items() if not count} == without


def test_a_legend_and_names_of_the_code_explain_a_formula(tmp_path):
    page = written(
        tmp_path,
        '"""What it is for."""',
        "def scaled(rewards, gamma):",
        '    """Scaled."""',
        r"    # LaTeX: s = \gamma \sum_i r_i ; r = rewards,",
        "    # LaTeX:   s = total",
        "    total = gamma * sum(rewards)",
        "    return total",
    )
    assert "\n\nWhat it is for.\n\n" in page
    assert "$$\ns = \\gamma \\sum_i r_i\n$$\n\n$r$ = `rewards`, $s$ = `total`" in page
    assert code_on_page(page) == {
        2: "def scaled(rewards, gamma):",
        3: '    """Scaled."""',
        6: "    total = gamma * sum(rewards)",
        7: "    return total",
    }
    assert '<span id="pufferlib.code.scaled"></span>' in page


@pytest.mark.parametrize(
    "latex, message",
    [
        (r"y = \mathrm{ratioo}", r"code.py:2: the formula .* has the name ratioo, which is not in double; write"),
        (r"y = x ; y = wrong", r"code.py:2: .* has the name wrong, which is not in double; correct what y is said"),
        (r"y = \alpha x", r"has the name alpha, which is not in double; .* as in: ; \\alpha = name"),
        (r"z = x", r"has the name z, which is not in double"),
        (r"y = other", r"has the name o, which is not in double"),
        (r"y = \operatorname{elsewhere}(x)", r"has the name elsewhere, which is not in double"),
        (r"y = \foo x", r"has \\foo, which docs/pages/annotated.py does not list"),
        (r"y = \frac{x}{2", r"has a brace .* without its other half"),
        (r"y = \left( x )", r"has a brace .* without its other half"),
        (r"y = x ; y", r"has a legend with 'y'; write symbol = code"),
        (r"y = x ; y = x ; x = y", r"has two legends; write one semicolon"),
    ],
)
def test_a_formula_that_the_code_does_not_bear_out_fails(tmp_path, latex, message):
    with pytest.raises(ValueError, match=message):
        written(
            tmp_path, "def double(x):", f"    # LaTeX: {latex}", "    y = 2 * x", "    return y", "", "elsewhere = 3"
        )


def test_a_formula_above_no_code_fails(tmp_path):
    for below in ("", "    # a comment"):
        with pytest.raises(ValueError, match=r"code.py:2: .* has no line of code below it"):
            written(tmp_path, "def double(x):", "    # LaTeX: x", below, "    return 2 * x")


def test_what_a_letter_stands_for_holds_to_the_end_of_its_function(tmp_path):
    first = [
        "def double(rate):",
        r"    # LaTeX: \eta ; \eta = rate",
        "    a = rate",
        r"    # LaTeX: 2 \eta",
        "    return 2 * a",
    ]
    assert r"$$" in written(tmp_path, *first)
    with pytest.raises(ValueError, match=r"code.py:7: .* the name eta, which is not in triple"):
        written(tmp_path, *first, "def triple(rate):", r"    # LaTeX: 3 \eta", "    return 3 * rate")


def test_a_comment_in_a_text_is_no_formula(tmp_path):
    page = written(tmp_path, "text = '''", "# LaTeX: z", "'''")
    assert code_on_page(page) == {1: "text = '''", 2: "# LaTeX: z", 3: "'''"}


def test_a_file_of_c_is_shown_alike(tmp_path):
    lines = ["// What it is for.", "#include <math.h>", "", "float root(float x) {", r"    // LaTeX: \sqrt{x}"]
    page = written(tmp_path, *lines, "    return sqrtf(x);  // a root", "}", name="root.h")
    assert "\n\nWhat it is for.\n\n" in page and '<span id="pufferlib.root.h.root"></span>' in page
    assert code_on_page(page)[6] == "    return sqrtf(x);  // a root"
    with pytest.raises(ValueError, match=r"root.h:5: .* has the name y, which is not in the file"):
        written(tmp_path, *lines[:-1], r"    // LaTeX: \sqrt{y}", "    return sqrtf(x);", "}", name="root.h")


def test_a_page_that_lists_no_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match="found none"):
        annotated.with_source("# The trainer\n", tmp_path)


@pytest.mark.slow
def test_the_pages_build(tmp_path):
    pytest.importorskip("sphinx", reason="comes with the extra docs")
    pytest.importorskip("myst_parser", reason="comes with the extra docs")
    source, built = tmp_path / "source", tmp_path / "html"
    source.mkdir()
    index = "# The trainer\n\n```{toctree}\n" + "\n".join(page.stem for page in PAGES) + "\n```\n"
    (source / "index.md").write_text(index)
    for page in PAGES:
        text = re.sub(r"\(\.\./\.\./", "(https://x.org/", page.read_text())
        (source / page.name).write_text(annotated.with_source(text, ROOT))
    given = (
        "extensions = ['myst_parser', 'sphinx.ext.mathjax']\nmyst_enable_extensions = ['colon_fence', 'dollarmath']\n"
    )
    (source / "conf.py").write_text(given)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(source), str(built)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    pages = [(built / f"{page.stem}.html").read_text() for page in PAGES]
    assert all(len(code_on_page(page)) > 50 for page in pages)
    assert sum(page.count('<div class="formula docutils container">') for page in pages) == sum(
        len(annotated.checked_formulas(path, (ROOT / path).read_text())) for path in SHOWN
    )
    for page in pages:
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_every_page_is_in_the_list_of_pages():
    index = (ROOT / "docs" / "trainer" / "index.md").read_text()
    for page in PAGES:
        assert f"({page.name})" in index and f"\n{page.stem}\n" in index


# ------------------------------------------------------------------------------------------- formulas, by other means


def test_the_formulas_of_the_loss_are_what_it_computes():
    from pufferlib.ppo.losses import ppo_loss

    torch.manual_seed(1)
    now, then, values, old, advantages, returns = (torch.randn(4, 5, dtype=torch.float64) for _ in range(6))
    entropy = torch.rand(4, 5, dtype=torch.float64)
    given = now, values, entropy, then, old, advantages, returns
    eps, eps_v, c_v, c_h = 0.2, 0.3, 0.5, 0.03
    loss = ppo_loss(*given, None, clip_coef=eps, vf_clip_coef=eps_v, vf_coef=c_v, ent_coef=c_h)
    rows = list(zip(*(each.flatten().tolist() for each in given), strict=True))

    def mean(each):
        return math.fsum(each(*row) for row in rows) / len(rows)

    def clipped(x, low, high):
        return max(low, min(high, x))

    l_pi = mean(lambda p, v, h, q, w, a, r: max(-a * math.exp(p - q), -a * clipped(math.exp(p - q), 1 - eps, 1 + eps)))
    l_v = 0.5 * mean(lambda p, v, h, q, w, a, r: max((v - r) ** 2, (w + clipped(v - w, -eps_v, eps_v) - r) ** 2))
    expected = {
        "policy_loss": l_pi,
        "value_loss": l_v,
        "old_approx_kl": mean(lambda p, v, h, q, *_: -(p - q)),
        "approx_kl": mean(lambda p, v, h, q, *_: math.exp(p - q) - 1 - (p - q)),
        "clipfrac": mean(lambda p, v, h, q, *_: abs(math.exp(p - q) - 1) > eps),
    }
    for name, number in expected.items():
        assert float(loss.metrics[name]) == pytest.approx(number), name
    assert float(loss.total) == pytest.approx(l_pi + c_v * l_v - c_h * mean(lambda p, v, h, *_: h))


def test_the_formulas_of_actions_are_what_is_computed():
    from torch.distributions import Normal

    from pufferlib.ppo.sampling import sample_logits

    torch.manual_seed(1)
    z = torch.randn(3, dtype=torch.float32)
    _, logprob, entropy = sample_logits(z.unsqueeze(0), action=torch.tensor([2]))
    log_pi = [float(each) - math.log(sum(math.exp(float(other)) for other in z)) for each in z]
    assert float(logprob) == pytest.approx(log_pi[2], rel=1e-5)
    assert float(entropy) == pytest.approx(-sum(math.exp(each) * each for each in log_pi), rel=1e-5)

    mu, sigma, a = torch.randn(1, 2), torch.rand(1, 2) + 0.5, torch.randn(1, 2)
    _, logprob, entropy = sample_logits(Normal(mu, sigma), action=a)
    parts = [(float(x), float(m), float(s)) for x, m, s in zip(a[0], mu[0], sigma[0], strict=True)]
    log_prob = -sum((x - m) ** 2 / (2 * s**2) + math.log(s) + 0.5 * math.log(2 * math.pi) for x, m, s in parts)
    assert float(logprob) == pytest.approx(log_prob, rel=1e-5)
    expected = sum(math.log(s) + 0.5 * math.log(2 * math.pi * math.e) for _, _, s in parts)
    assert float(entropy) == pytest.approx(expected, rel=1e-5)


def test_the_formulas_of_advantages_are_what_the_kernel_computes():
    from pufferlib.extensions.advantage import compute_puff_advantage

    torch.manual_seed(1)
    v, r, w = torch.randn(1, 6), torch.randn(1, 6), torch.rand(1, 6) * 2
    d = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    gamma, lam, rho_bar, c_bar = 0.9, 0.8, 1.0, 0.7
    found = compute_puff_advantage(v, r, d, w, torch.zeros_like(v), gamma, lam, rho_bar, c_bar)[0]
    advantage = 0.0
    for t in reversed(range(5)):
        n = 1 - float(d[0, t + 1])
        delta = min(rho_bar, float(w[0, t])) * (float(r[0, t + 1] + gamma * v[0, t + 1] * n) - float(v[0, t]))
        advantage = delta + gamma * lam * min(c_bar, float(w[0, t])) * n * advantage
        assert float(found[t]) == pytest.approx(advantage, abs=1e-5)


def test_the_formulas_of_priorities_are_what_is_computed():
    from pufferlib.ppo.advantages import importance_weights, inclusion_probabilities, segment_probabilities

    torch.manual_seed(1)
    advantages = torch.randn(8, 4, dtype=torch.float64)
    w = [sum(abs(float(a)) for a in row) ** 0.6 for row in advantages]
    p = [(each + 1e-6) / (sum(w) + 1e-6) for each in w]
    p = [each / sum(p) for each in p]
    probabilities = segment_probabilities(advantages, 0.6)
    assert probabilities.tolist() == pytest.approx(p)
    q = inclusion_probabilities(probabilities, 3)
    assert float(q.sum()) == pytest.approx(3, rel=1e-3)
    times = [-math.log(1 - float(each)) / rate for each, rate in zip(q, p, strict=True)]
    assert times == pytest.approx([times[0]] * 8)
    rows = torch.tensor([5, 1, 2])
    expected = [(float(q[row]) * 8 / 3) ** -0.4 for row in rows]
    assert importance_weights(q, rows, 0.4).tolist() == pytest.approx(expected)


def test_the_formulas_of_merged_moments_are_those_of_all_numbers():
    from pufferlib.metrics.measures import Moments

    torch.manual_seed(1)
    x = torch.randn(50, dtype=torch.float64)
    merged = Moments.of_rows(x[:20].unsqueeze(1)).merged(Moments.of_rows(x[20:].unsqueeze(1)))
    assert float(merged.mean) == pytest.approx(float(x.mean()))
    assert float(merged.variance) == pytest.approx(float(((x - x.mean()) ** 2).mean()))


def test_the_formulas_of_adam_and_of_clipping_are_what_the_kernels_compute():
    from pufferlib.extensions.adam import clip_gradients
    from pufferlib.fast.learners import KernelAdam

    torch.manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(3))
    eta, beta1, beta2, eps, decay = 0.1, 0.9, 0.99, 1e-5, 0.2
    optimizer = KernelAdam([parameter], lr=eta, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    theta, m, v = [*parameter.tolist()], [0.0] * 3, [0.0] * 3
    for t in (1, 2, 3):
        parameter.grad = torch.randn(3)
        for i, g in enumerate(parameter.grad.tolist()):
            m[i] += (1 - beta1) * (g - m[i])
            v[i] = beta2 * v[i] + (1 - beta2) * g**2
            step = eta / (1 - beta1**t) * m[i] / (math.sqrt(v[i]) / math.sqrt(1 - beta2**t) + eps)
            theta[i] = (1 - eta * decay) * theta[i] - step
        optimizer.step()
    assert parameter.tolist() == pytest.approx(theta, rel=1e-4)

    gradient = torch.tensor([3.0, 4.0])
    clip_gradients([gradient], 2.0)
    assert gradient.tolist() == pytest.approx([3.0 * 2 / (5 + 1e-6), 4.0 * 2 / (5 + 1e-6)])


def test_the_formulas_of_a_score_are_what_is_computed():
    from pufferlib.dashboard.score import Score

    x = [1.0, 4.0, 6.0, 9.0]
    mu = sum(x) / 4
    error = math.sqrt(sum((each - mu) ** 2 for each in x) / 3) / math.sqrt(4)
    score = Score.of(x)
    assert (score.mean, score.standard_error) == pytest.approx((mu, error))
