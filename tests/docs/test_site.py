"""The site as it is built: no warning, no dead link, nothing from another host, no page that nobody reaches."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "myst_parser", "furo", "sphinx_copybutton", "sphinx_design")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
SECONDS = 1200
LOADED = {  # what a browser fetches by itself, by element and attribute
    *(("script", "src"), ("img", "src"), ("source", "src"), ("video", "src"), ("video", "poster"), ("audio", "src")),
    *(("iframe", "src"), ("embed", "src"), ("object", "data"), ("input", "src"), ("track", "src"), ("image", "href")),
    *(("img", "srcset"), ("source", "srcset"), ("use", "href")),
}
FETCHING_RELATIONS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "modulepreload",
    "preconnect",
    "dns-prefetch",
    "manifest",
}
URL_IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")
GENERATED = {"genindex.html", "search.html", "py-modindex.html", "_modules/index.html"}  # the theme links them, or not


@dataclass
class Page(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self):
        super().__init__()
        self._is_style = False

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and FETCHING_RELATIONS & set(found.get("rel", "").split()):
            self.loads.append(found["href"])
        for name, value in found.items():
            if (tag, name.removeprefix("xlink:")) in LOADED:
                self.loads += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
        self.loads += URL_IN_CSS.findall(found.get("style", ""))
        self._is_style = tag == "style"

    def handle_data(self, data):
        if self._is_style:
            self.loads += URL_IN_CSS.findall(data)

    def handle_endtag(self, tag):
        self._is_style = False


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    return page


def pages_of(site: Path) -> dict[Path, Page]:
    return {path: read(path) for path in sorted(site.rglob("*.html"))}


def is_elsewhere(address: str) -> bool:
    """Whether it is on another host; what stands in the address itself, as data:, is not."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def target(page: Path, address: str) -> Path:
    """The file that an address on a page means."""
    path = unquote(urlsplit(address).path)
    found = (page.parent / path).resolve() if path else page
    return found / "index.html" if found.is_dir() else found


def dead_links(pages: dict[Path, Page]) -> list[str]:
    """Links within the site that lead to no file, or to no place in one."""
    found = []
    for path, page in pages.items():
        for address in page.links:
            if is_elsewhere(address) or urlsplit(address).scheme:
                continue
            place, anchor = target(path, address), unquote(urlsplit(address).fragment)
            if not place.is_file():
                found.append(f"{path.name}: {address} leads to no file")
            elif anchor and place in pages and anchor not in pages[place].anchors:
                found.append(f"{path.name}: {address} leads to no place")
    return found


def foreign_loads(site: Path, pages: dict[Path, Page]) -> list[str]:
    """What pages and styles fetch from other hosts, and what they fetch that is not there."""
    loads = [(path, address) for path, page in pages.items() for address in page.loads]
    loads += [(path, address) for path in site.rglob("*.css") for address in URL_IN_CSS.findall(path.read_text())]
    found = [f"{path.name} loads {address}" for path, address in loads if is_elsewhere(address)]
    own = [(path, address) for path, address in loads if not is_elsewhere(address) and not urlsplit(address).scheme]
    return found + [
        f"{path.name} loads {address}, no file" for path, address in own if not target(path, address).is_file()
    ]


def unreached(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Pages to which no way of links leads from the index."""
    known, waiting = set(), [site / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in known or path not in pages:
            continue
        known.add(path)
        waiting += [target(path, link) for link in pages[path].links if not urlsplit(link).scheme]
    missed = [path.relative_to(site).as_posix() for path in pages if path not in known]
    return [name for name in missed if name not in GENERATED]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if "PUFFER_SITE" in os.environ:  # one that was built just now
        return ROOT / os.environ["PUFFER_SITE"]
    if MISSING:
        pytest.skip(f"the site needs {', '.join(MISSING)}: pip install -e '.[docs]'")
    output = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "docs/build.py", "--no-pictures", "--output", str(output)],
        **dict(cwd=ROOT, capture_output=True, text=True, timeout=SECONDS),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    return output / "html"


@pytest.mark.slow
def test_links_lead_somewhere_nothing_is_fetched_elsewhere_and_all_pages_are_reached(site):
    pages = pages_of(site)
    assert len(pages) > 20
    assert not dead_links(pages)
    assert not foreign_loads(site, pages)
    assert not unreached(site, pages)


def test_links_of_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text())
    paths = [urlsplit(link).path for link in links if not is_elsewhere(link)]
    assert len(paths) > 30
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_a_broken_site_is_noticed(tmp_path):
    (tmp_path / "style.css").write_text(
        "a { background: url(https://example.org/a.png) } b { background: url('b.png') }"
    )
    (tmp_path / "alone.html").write_text("<p id=here>")
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://example.org/">'
        '<script src="//example.org/a.js"></script><img src="data:image/png;base64,AA"><style>@import "https://e.org/c";</style>'
        '<a href="https://example.org">fine</a><a href="mailto:a@example.org">fine</a><a href="#nowhere"></a>'
        '<a href="gone.html"></a><a href="next.html#there"></a>'
    )
    (tmp_path / "next.html").write_text('<p id="there"><a href="index.html#top"></a><b id="top">')
    pages = pages_of(tmp_path)
    assert dead_links(pages) == [
        "index.html: #nowhere leads to no place",
        "index.html: gone.html leads to no file",
        "next.html: index.html#top leads to no place",
    ]
    assert foreign_loads(tmp_path, pages) == [
        "index.html loads //example.org/a.js",
        "index.html loads https://e.org/c",
        "style.css loads https://example.org/a.png",
        "style.css loads b.png, no file",
    ]
    assert unreached(tmp_path, pages) == ["alone.html"]
