"""Builds the site: the pages of docs/, and those that are made from the code, the settings and the rows of benchmarks.

    python docs/build.py                 into build/docs/html; a warning is an error
    python docs/build.py --serve         and shows it at http://localhost:8000
    python docs/build.py --no-pictures   without drawing the environments and making them playable, which takes longest
    python docs/build.py --output DIR    into DIR/html, and all that it needs on the way beside it

All is put together in build/docs/source, so that nothing generated lies among what is written by hand. The build needs
`pip install -e '.[docs]'` and no network, and the pages ask nobody else for anything.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import os
import re
import shutil
import sys
from pathlib import Path

from pages import annotated, c_contract, command_line, configuration, games, ocean, speed
from sphinx.cmd.build import main as sphinx_build

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "docs"
FROM_THE_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
REPOSITORY = "https://github.com/PufferAI/PufferLib"
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
PORT = 8000


def main(arguments: list[str]) -> int:
    """Returns the status that the shell gets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="shows the site when it is built, until Ctrl-C")
    parser.add_argument("--no-pictures", action="store_true", help="draws no environment, and makes none playable")
    parser.add_argument("--output", type=Path, default=BUILD, metavar="DIR", help="where everything is put")
    options = parser.parse_args(arguments)
    build = options.output.resolve()
    source, html = build / "source", build / "html"
    gather(source, has_pictures=not options.no_pictures)
    status = sphinx_build(["-W", "--keep-going", "-q", "-d", str(build / "doctrees"), str(source), str(html)])
    if status == 0:
        print(f"{html / 'index.html'}")
    if status == 0 and options.serve:
        serve(html)
    return status


def gather(source: Path, has_pictures: bool) -> None:
    """Puts all pages together, and what they show; those of earlier builds that exist no more are removed."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("__pycache__", "pages", "build.py"))
    for page in HERE.rglob("*.md"):
        (source / page.relative_to(HERE)).write_text(with_links_of_the_site(page))
    for name in FROM_THE_ROOT:
        (source / name.lower()).write_text(with_links_of_the_site(ROOT / name))
    for page in sorted((source / "trainer").glob("*.md")):
        if page.name != "index.md":
            page.write_text(annotated.with_source(page.read_text(), ROOT))
    (source / "extra").mkdir()  # what Sphinx copies as it is
    ocean.write(source, has_pictures, REPOSITORY)
    front = source / "index.md"
    game = games.place("puffer_breakout", source, "") if has_pictures else ""
    front.write_text(front.read_text().replace("<!-- a game -->\n", game))
    speed.write(source)
    c_contract.write(source)
    configuration.write(source)
    command_line.write(source)


def with_links_of_the_site(page: Path) -> str:
    """The text of a page whose links to files of the repository lead there, and those to pages stay here.

    Raises:
        ValueError: if a link leads to no file.
    """

    def relink(match: re.Match[str]) -> str:
        path = (page.parent / match["path"]).resolve()
        if not path.exists():
            raise ValueError(
                f"{page.relative_to(ROOT)}: expected a file, found a link to {match['path']}; mend the link"
            )
        name = path.relative_to(ROOT)
        if str(name) in FROM_THE_ROOT:
            place = HERE / str(name).lower()
        elif path.is_relative_to(HERE) and path.is_file():
            place = path
        else:
            return f"]({REPOSITORY}/{'tree' if path.is_dir() else 'blob'}/main/{name}{match['anchor'] or ''})"
        return f"]({os.path.relpath(place, HERE if page.parent == ROOT else page.parent)}{match['anchor'] or ''})"

    return LINK.sub(relink, page.read_text())


def serve(html: Path) -> None:
    """Shows the built site until Ctrl-C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("localhost", PORT), handler) as server:
        print(f"http://localhost:{PORT}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
