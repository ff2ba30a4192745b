"""How Sphinx builds the site; docs/build.py calls it on a copy of docs/ with the generated pages in place."""

import inspect
from importlib import metadata

from docutils import nodes
from sphinx.addnodes import desc_signature
from sphinx.util.inspect import stringify_signature

project = "PufferLib"
author = "the PufferLib authors"
copyright = f"2026, {author}"
release = version = metadata.version("pufferlib")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",  # formulas without a request to anybody
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["pages"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autoclass_content = "both"  # what a constructor takes stands in its own docstring
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

smartquotes = False  # a flag is two hyphens, and stays so
default_role = "code"  # docstrings write code between single backquotes

nitpicky = False  # types of other libraries have no page here; links of our own are checked by MyST
html_theme = "furo"
html_title = "PufferLib"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]  # docs/build.py puts the playable environments there
html_show_sphinx = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
pygments_style = "friendly"
pygments_dark_style = "github-dark-high-contrast"  # no underlines
html_theme_options = {
    "source_repository": "https://github.com/PufferAI/PufferLib/",
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": [],
}


LINE = 36  # characters of code that fit in a line on a phone, also in a list
TABLE = 46  # characters of a row that fit there, with two between columns


def setup(app):
    """Adds what the theme and the extensions leave open."""
    app.connect("doctree-read", mark_long_code)
    app.connect("doctree-read", label_cells_of_wide_tables)
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("doctree-read", give_places_to_sources)


def mark_long_code(app, doctree):
    """Lets what is too long for a line be broken."""
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) > LINE:
            code["classes"].append("long")


def label_cells_of_wide_tables(app, doctree):
    """Puts the head of its column into each cell, for phones, which show the cells of such a row below each other."""
    for table in doctree.findall(nodes.table):
        rows = [[cell.astext() for cell in row.findall(nodes.entry)] for row in table.findall(nodes.row)]
        words = [" ".join(column).split() or [""] for column in zip(*rows, strict=False)]
        widths = [max(map(len, column)) for column in words]
        if sum(widths) + 2 * len(widths) <= TABLE or not any(table.findall(nodes.thead)):
            continue
        table["classes"].append("wide")
        for row in next(table.findall(nodes.tbody)).findall(nodes.row):
            for head, cell in zip(rows[0], row.findall(nodes.entry), strict=False):
                if head and cell.children:
                    cell.insert(0, nodes.inline("", head, classes=["head"]))


def signature_of_init(app, what, name, obj, options, signature, return_annotation):
    """What `__init__` takes, in the place of what only a metaclass hands on."""
    if what == "class" and signature == "(*arguments, **keywords)":
        found = inspect.signature(obj.__init__)
        own = found.replace(parameters=[*found.parameters.values()][1:], return_annotation=found.empty)
        return stringify_signature(own, show_annotation=False), return_annotation
    return None


def give_places_to_sources(app, doctree):
    """Gives each name the place that the page of its source links back to.

    viewcode links from all names of a module by the prefix that one of them was documented with: `pufferlib.check_env`
    where another one is `pufferlib.PufferEnv`.
    """
    sources = [entry for entry in getattr(app.env, "_viewcode_modules", {}).values() if entry]
    for signature in doctree.findall(desc_signature):
        name = signature.get("fullname")
        for _, _, pages_of_names, prefix in sources:
            if pages_of_names.get(name) == app.env.docname and f"{prefix}.{name}" not in signature["ids"]:
                signature["ids"].append(f"{prefix}.{name}")
