r"""The trainer, annotated: a page's links to files of source become these files, with their formulas set in place.

A list item that begins with a link to a file, "- [pufferlib/ppo/losses.py](...): what it is", becomes a heading, the
docstring of the module (of C the comment at its top) as prose, and the code with the numbers that its lines have in the
file. Every line, class and function can be linked to: `#pufferlib.ppo.losses.ppo_loss`, `#pufferlib.ppo.losses-65`.

A formula is a comment directly above the line of code that computes it; there may be several, one below the other:

    # LaTeX: \rho = e^\ell ; \rho = ratio, \ell = logratio
    ratio = logratio.exp()

What stands before the semicolon is displayed, what follows is a legend: a symbol and the code that it stands for, which
holds from there to the end of the function. (`\;` is a space, and no semicolon of this kind.) Where a formula is too
long, the next comment goes on with it, indented further: `# LaTeX:   and so on`. So that a formula cannot
speak of code that is not there, each of these is an error:

- a legend whose code has a name that the function does not use, as a variable, argument, attribute or function. Of a
  class this is what the class uses, outside of both the module; of C the whole file;
- a word in \mathrm{...}, \mathtt{...}, \texttt{...} or \operatorname{...} that is no such name;
- a letter, Latin or Greek, that is no such name (\gamma is `gamma`) and in no legend above. Free are the indices i, j,
  k and t, the constants e and \pi, and what stands in \text{...} or \mathcal{...};
- a command that is not in COMMANDS, braces without their other half, and a formula with no code below it.
"""

from __future__ import annotations

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, PythonLexer

ITEM = re.compile(r"^- \[(?P<path>[\w/.]+\.(?:py|h|cpp))\]\((?P<link>[^)]+)\)(?:: (?P<text>.+(?:\n  .+)*))?$", re.M)
LATEX = re.compile(r"^(?:#|//) LaTeX: (?P<indent> *)(?P<tex>.+)$")
SEMICOLON = re.compile(r"(?<!\\);")
COMMA = re.compile(r",\s*(?![^\[(]*[\])])")  # but for those in brackets
NAME = re.compile(r"[A-Za-z_]\w*")
TOKEN = re.compile(r"\\(?P<command>[A-Za-z]+)(?P<group>\s*\{(?:[^{}]|\\[{}])*\})?|\\.|(?P<letter>[A-Za-z])|.", re.S)
C_COMMENT = re.compile(r"//.*")
C_FUNCTION = re.compile(r"^(?!static_assert)[A-Za-z][^=;{}()]*?\b(?P<name>\w+)\(", re.M)

FREE = frozenset(("i", "j", "k", "t", "e", "pi"))
WORDS = frozenset(("mathrm", "mathtt", "texttt", "operatorname"))
PROSE = frozenset(("text", "mathcal", "begin", "end"))
_GREEK = """
alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi varphi chi psi omega
Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega ell
"""
_COMMANDS = """
sum prod int max min exp log sqrt cos sin frac tfrac cdot cdots dots times hat bar tilde overline left right big Big
lfloor rfloor lceil rceil langle rangle lVert rVert lvert rvert quad qquad le ge lt gt ne approx sim in mid infty
leftarrow to land lor lnot top nabla partial displaystyle textstyle bmod prime
"""
GREEK, COMMANDS = frozenset(_GREEK.split()), frozenset(_COMMANDS.split())


@dataclass
class Formula:
    """A displayed formula.

    Attributes:
        line, last: of the comment, counted from 1.
        tex: what is displayed.
        legend: symbols in LaTeX, and the code that they stand for.
    """

    line: int
    last: int
    tex: str
    legend: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Scope:
    """A class, a function, or a whole file: its first and last line, its dotted name, and the names in its code."""

    first: int
    last: int
    name: str
    names: frozenset[str]


def with_source(page: str, root: Path) -> str:
    """The text of a page in Markdown with the files that it lists.

    Args:
        page: the text.
        root: of the repository, where the paths begin.

    Raises:
        ValueError: if a formula is wrong, see above, or no file is listed.
    """
    if not ITEM.search(page):
        raise ValueError("the annotated trainer: expected items such as - [path/of.py](link), found none; list files")
    return ITEM.sub(lambda item: section(root, item["path"], item["link"], item["text"] or ""), page)


def section(root: Path, path: str, link: str, text: str = "") -> str:
    """A file as part of a page."""
    source = (root / path).read_text(encoding="utf-8")
    module = module_name(path)
    formulas = {formula.line: formula for formula in checked_formulas(path, source)}
    defined: dict[str, Scope] = {}
    for scope in scopes_of(path, source)[1:]:
        defined.setdefault(scope.name, scope)  # the first overload; a property before its setter
    prose, code_begins = opening(path, source)
    parts = [f'<span id="{module}"></span>\n\n## [{path}]({link})', text, prose, index(module, defined)]
    lines = highlighted(path, source)
    block: list[str] = []
    skipped = 0
    for number in range(code_begins, len(lines) + 1):
        if number <= skipped:
            continue
        if number in formulas:
            skipped = formulas[number].last
            parts += [*code(block), displayed(formulas[number])]
            block = []
            continue
        targets = "".join(
            f'<span id="{module}.{each.name}"></span>' for each in defined.values() if each.first == number
        )
        place = f"{module}-{number}"
        number_link = f'<a class="linenos" href="#{place}" tabindex="-1">{number}</a>'
        block.append(f'<span class="line" id="{place}">{targets}{number_link}{lines[number - 1]}</span>')
    parts += code(block)
    return "\n\n".join(part for part in parts if part)


def module_name(path: str) -> str:
    """As it is imported: `extensions/` is mapped into the package; of C, with the end of its name."""
    name = path.removesuffix(".py").replace("/", ".")
    return name if name.startswith("pufferlib") else f"pufferlib.{name}"


def opening(path: str, source: str) -> tuple[str, int]:
    """The docstring of a module, or the comment that a file of C begins with; and the line where the rest begins."""
    lines = source.splitlines()
    if not path.endswith(".py"):
        count = next((index for index, line in enumerate(lines) if not line.startswith("//")), len(lines))
        return "\n".join(line[2:].removeprefix(" ") for line in lines[:count]), count + 1
    body = ast.parse(source).body
    docstring = ast.get_docstring(ast.parse(source))
    return (docstring, body[0].end_lineno + 1) if docstring else ("", 1)


def highlighted(path: str, source: str) -> list[str]:
    """The lines as HTML."""
    lexer = PythonLexer if path.endswith(".py") else CppLexer
    made = highlight(source, lexer(stripnl=False, ensurenl=True), HtmlFormatter(nowrap=True))
    return made.removesuffix("\n").split("\n")


def code(lines: list[str]) -> Iterator[str]:
    """A block of highlighted lines, without empty ones at its ends; none where nothing is left."""
    shown = list(lines)
    for end in (0, -1):
        while shown and not text_of(shown[end]).strip(" 0123456789"):
            del shown[end]
    if shown:
        inside = "\n".join(shown)
        yield (
            '```{raw} html\n<div class="highlight-python notranslate annotated"><div class="highlight">'
            f"<pre>{inside}\n</pre></div></div>\n```"
        )


def text_of(line: str) -> str:
    """HTML without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", line))


def displayed(formula: Formula) -> str:
    """A formula with its legend below it, in MyST."""
    legend = ", ".join(f"${symbol}$ = `{meaning}`" for symbol, meaning in formula.legend)
    body = f"$$\n{formula.tex}\n$$" + (f"\n\n{legend}" if legend else "")
    return f":::{{container}} formula\n{body}\n:::"


def index(module: str, names: Iterable[str]) -> str:
    """Links to the classes and functions of a file; empty where it has none."""
    links = " ".join(f'<a href="#{module}.{name}"><code>{name}</code></a>' for name in names)
    return f'```{{raw}} html\n<p class="defined">{links}</p>\n```' if links else ""


# --------------------------------------------------------------------------------------------- formulas and their names


def checked_formulas(path: str, source: str) -> list[Formula]:
    """The formulas of a file.

    Raises:
        ValueError: if one speaks of what the code beside it has not, or cannot be displayed.
    """
    formulas, scopes = list(formulas_of(path, source)), scopes_of(path, source)
    lines = source.splitlines()
    formula_lines = {line for formula in formulas for line in range(formula.line, formula.last + 1)}
    explained: dict[Scope, set[str]] = {}
    for formula in formulas:
        where = f"{path}:{formula.line}: the formula {formula.tex}"
        below = formula.line
        while below + 1 in formula_lines:
            below += 1
        follower = lines[below].strip() if below < len(lines) else ""
        if not follower or follower.startswith(("#", "//")):
            raise ValueError(f"{where} has no line of code below it; put it directly above what computes it")
        scope = next(each for each in reversed(scopes) if each.first <= below + 1 <= each.last)
        known = explained.setdefault(scope, set())
        for symbol, meaning in formula.legend:
            for name in NAME.findall(meaning):
                require(name in scope.names or name in FREE, where, name, scope, f"correct what {symbol} is said to be")
            known |= set(symbols(symbol, where))
        for symbol in symbols(formula.tex, where):
            written = f"\\{symbol}" if symbol in GREEK else symbol
            remedy = f"write the name that the code has, or add what it is, as in: ; {written} = name"
            require(symbol in known or symbol in FREE or symbol in scope.names, where, symbol, scope, remedy)
    return formulas


def require(is_there: bool, where: str, name: str, scope: Scope, remedy: str) -> None:
    """Raises ValueError for a name that the code has not."""
    if not is_there:
        raise ValueError(f"{where} has the name {name}, which is not in {scope.name or 'the file'}; {remedy}")


def formulas_of(path: str, source: str) -> Iterator[Formula]:
    """What the comments say, line after line."""
    for begin, end, whole in joined(path, source):
        tex, *legends = (part.strip() for part in SEMICOLON.split(whole))
        where = f"{path}:{begin}: the formula {tex}"
        legend = []
        for entry in COMMA.split(legends[0]) if legends else ():
            symbol, equals, meaning = entry.partition(" = ")
            if not equals or not symbol.strip() or not meaning.strip():
                raise ValueError(f"{where} has a legend with {entry!r}; write symbol = code, with commas in between")
            legend.append((symbol.strip(), meaning.strip()))
        if len(legends) > 1:
            raise ValueError(f"{where} has two legends; write one semicolon")
        yield Formula(begin, end, tex, legend)


def joined(path: str, source: str) -> Iterator[tuple[int, int, str]]:
    """The first and the last line of every formula, and what they say; those that go on are put together."""
    found: list[tuple[int, int, str]] = []
    for number, comment in comments(path, source):
        match = LATEX.match(comment)
        if match is None:
            continue
        if match["indent"] and found and found[-1][1] == number - 1:
            begin, _, text = found.pop()
            found.append((begin, number, f"{text} {match['tex']}"))
        else:
            found.append((number, number, match["tex"]))
    return iter(found)


def comments(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Lines that are nothing but a comment, by their numbers, without what they are indented by."""
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                yield token.start[0], token.string
    else:
        for number, line in enumerate(source.splitlines(), 1):
            if line.strip().startswith("//"):
                yield number, line.strip()


def scopes_of(path: str, source: str) -> list[Scope]:
    """The file, then its classes and functions in their order, those inside after those around them."""
    last = source.count("\n") + 1
    if not path.endswith(".py"):
        without = C_COMMENT.sub("", source)
        names = frozenset(NAME.findall(without))
        found = {match["name"]: without.count("\n", 0, match.start()) + 1 for match in C_FUNCTION.finditer(without)}
        return [Scope(1, last, "", names), *(Scope(line, line, name, names) for name, line in found.items())]
    scopes: list[Scope] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                visit(child, prefix)
                continue
            name = f"{prefix}{child.name}"
            first = min((child.lineno, *(each.lineno for each in child.decorator_list)))
            scopes.append(Scope(first, child.end_lineno or first, name, names_in(child)))
            visit(child, f"{name}.")

    tree = ast.parse(source)
    visit(tree, "")
    return [Scope(1, last, "", names_in(tree)), *scopes]


def names_in(tree: ast.AST) -> frozenset[str]:
    """All names that code uses: variables, arguments, keywords, attributes, functions, classes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        names |= {getattr(node, each) for each in ("id", "arg", "attr", "name") if hasattr(node, each)}
    return frozenset(name for name in names if isinstance(name, str))


def symbols(tex: str, where: str) -> Iterator[str]:
    """The letters, Greek letters by their names, and words of a formula.

    Raises:
        ValueError: if it has an unknown command, or braces without their other half.
    """
    bare = tex.replace(r"\{", "").replace(r"\}", "")
    if bare.count("{") != bare.count("}") or tex.count(r"\left") - tex.count(r"\leftarrow") != tex.count(r"\right"):
        raise ValueError(f"{where} has a brace or a \\left without its other half; add it")
    place = 0
    while place < len(tex):
        token = TOKEN.match(tex, place)
        command, letter = token["command"], token["letter"]
        place = token.end()
        if command in WORDS:
            yield (token["group"] or "").strip().strip("{}").replace(r"\_", "_")
        elif command is not None and command not in PROSE:
            place = token.end("command")  # what is in braces comes next
            if command in GREEK:
                yield command
            elif command not in COMMANDS:
                raise ValueError(f"{where} has \\{command}, which docs/pages/annotated.py does not list; add it there")
        elif letter is not None:
            yield letter
