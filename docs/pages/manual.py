"""The manual of an environment: the first comment of its header, as Markdown.

Nothing is added to it and nothing left out, but each part (what is observed, done, rewarded, when an episode ends)
begins a paragraph of its own, and a constant that it names is followed by its value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .markdown import escaped

PARTS = {
    "what is observed": re.compile(r"\bObservation"),
    "what one may do": re.compile(r"\bAction"),
    "what is rewarded": re.compile(r"\bReward"),
    "when an episode ends": re.compile(r"terminal|truncat", re.IGNORECASE),
}
LEADS = "Observation|Actions?|Reward|Terminal|Truncation|[Ss]core|[Pp]erf"
PART_BEGINS = re.compile(rf"(?<=[.:)] )(?=(?:{LEADS}|What is wrong)\b)")
LEAD = re.compile(rf"(?:{LEADS})\b")
CONSTANT = re.compile(r"(?<!`)\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b")
NAME = re.compile(r"[A-Za-z_]\w*")
COLUMNS = 117  # of a line of a comment, behind its slashes: one that ends sooner than it had to ends a paragraph


def of_header(header: Path) -> tuple[str, str]:
    """What it is in a sentence, and the rest of the manual, both as Markdown.

    Raises:
        ValueError: if the header has no manual, or the manual leaves out a part; one sentence.
    """
    text = header.read_text()
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" ").rstrip())
    begin = f"{header.name} - "
    if not lines or not lines[0].startswith(begin):
        found = f"found {lines[0]!r}" if lines else "found no comment"
        raise ValueError(
            f"{place(header)}: expected a manual, a first comment that begins `// {begin}`, {found}; write there the "
            "rules, what is observed, done and rewarded, and when an episode ends"
        )
    lines[0] = lines[0].removeprefix(begin)
    require_parts(header, "\n".join(lines))
    return in_two(lines, text)


def of_docstring(module: Path) -> tuple[str, str]:
    """The same of an environment in Python, whose manual is its module's docstring."""
    found = re.match(r'"""(.+?)"""', module.read_text(), re.DOTALL)
    if found is None:
        raise ValueError(
            f"{place(module)}: expected a manual, a docstring at the top, found none; write the rules there"
        )
    require_parts(module, found[1])
    lines = found[1].strip().splitlines()
    lines[0] = lines[0].partition(": ")[2] or lines[0]
    return in_two(lines, "")


def require_parts(path: Path, manual: str) -> None:
    """Raises a ValueError that names the first part which is not in it."""
    for part, words in PARTS.items():
        if not words.search(manual):
            raise ValueError(
                f"{place(path)}: expected the manual to say {part}, found nothing of it; add it to the comment"
            )


def place(path: Path) -> str:
    """How errors call a file: its last three parts."""
    return "/".join(path.parts[-3:])


def in_two(lines: Sequence[str], code: str) -> tuple[str, str]:
    """The first paragraph apart from the others."""
    end = list(lines).index("") if "" in lines else len(lines)
    first = " ".join(lines[:end])
    return escaped(first[0].upper() + first[1:]), markdown(lines[end:], code)


def markdown(lines: Sequence[str], code: str) -> str:
    """Lines of a comment as Markdown: paragraphs, lists, and what is indented as it stands."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        kind = kind_of(line, blocks[-1][0] if blocks else "end")
        if kind in ("end", "item") or not blocks or blocks[-1][0] != kind or has_ended(blocks[-1], line):
            blocks.append((kind, []))
        blocks[-1][1].append(line)
    return "\n".join(shown(kind, own, code) for kind, own in blocks)


def has_ended(block: tuple[str, list[str]], line: str) -> bool:
    """Whether the next line begins a paragraph: its first word had room in the one before, which has ended."""
    kind, lines = block
    has_room = len(lines[-1]) + 1 + len(line.split(" ")[0]) <= COLUMNS
    return kind == "paragraph" and has_room and lines[-1].endswith((".", ":"))


def kind_of(line: str, before: str) -> str:
    """What a line is, by itself and the kind of the line before."""
    if not line:
        return "end"
    if line.startswith("- "):
        return "item"
    if line.startswith("  "):
        return "rest of an item" if before in ("item", "rest of an item") else "table"
    return "paragraph"


def shown(kind: str, lines: list[str], code: str) -> str:
    """A block as Markdown."""
    if kind == "end":
        return ""
    if kind == "table":
        indent = min(len(line) - len(line.lstrip()) for line in lines)
        return "```text\n" + "\n".join(line[indent:] for line in lines) + "\n```\n"
    text = " ".join(line.strip() for line in lines)
    if kind == "item":
        return "- " + prose(text.removeprefix("- "), code)
    if kind == "rest of an item":
        return "  " + prose(text, code)
    return "\n".join(paragraph(part.strip(), code) + "\n" for part in PART_BEGINS.split(text))


def paragraph(text: str, code: str) -> str:
    """A paragraph, whose first word stands out where it begins a part."""
    lead = LEAD.match(text)
    if lead is None:
        return prose(text, code)
    return f"**{lead[0].capitalize()}**{prose(text[lead.end() :], code)}"


def prose(text: str, code: str) -> str:
    """Text in which constants are code, each with its value."""
    parts = CONSTANT.split(text)
    return "".join(named(part, code) if index % 2 else escaped(part) for index, part in enumerate(parts))


def named(constant: str, code: str) -> str:
    """A constant, and its value where it has one that can be told."""
    value = value_of(constant, code)
    return f"`{constant}`" if value is None else f"`{constant}` ({value})"


def value_of(constant: str, code: str) -> str | None:
    """What a header says that a constant is, a number or a table of numbers; None where it is no constant of it."""
    simple = re.search(rf"\b{constant} = ([\d.]+)|#define {constant} \(([-\d.]+)f\)", code)
    if simple:
        return simple[1] or f"{float(simple[2]):g}"
    found = re.search(rf"\b{constant}(?:\[\w+\])+ = (\{{[^;]*\}});", code)
    if found is None:
        return None
    table = re.sub(r"//[^\n]*", "", found[1])
    table = re.sub(r"(\d\.\d+)f", lambda number: f"{float(number[1]):g}", table)
    table = NAME.sub(lambda name: value_of(name[0], code) or name[0], table)
    groups = [re.sub(r"\s+", " ", group).strip(" ,") for group in re.findall(r"[^{}]+", table) if group.strip(" ,\n")]
    return " or ".join(groups)
