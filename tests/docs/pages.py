"""What stands on the pages that people wrote: blocks of code, commands, links and lines."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.places import ROOT

MADE = {path.stem for path in (ROOT / "docs" / "results").glob("*.md")} - {"index", "reading"}  # from results/
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / "docs" / "results" / f"{stem}.md" for stem in ("index", "reading")),
]
FENCE = re.compile(r"^(```+)(\S*)[^\n]*\n(.*?)^\1\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    section: str  # the heading that it stands under
    line: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[2], found[3], _section(text, found.start()), text.count("\n", 0, found.start()) + 2)
        for found in FENCE.finditer(text)
    ]


def _section(text: str, place: int) -> str:
    headings = [found for found in HEADING.finditer(prose(text, keep_length=True)) if found.start() < place]
    return headings[-1][1] if headings else ""


def prose(text: str, keep_length: bool = False) -> str:
    """The text without its blocks of code."""
    return FENCE.sub(lambda found: " " * len(found[0]) if keep_length else "\n", text)


def commands(page: Path) -> Iterator[list[str]]:
    """What a reader may copy into a shell, as words."""
    lines = [
        line for block in blocks(page) if block.language in ("bash", "console") for line in block.text.splitlines()
    ]
    lines += re.findall(r"^ {4}(?:\$ )?(beno .*)$", prose(page.read_text()), re.MULTILINE)
    for line in lines:
        if words := shlex.split(line.removeprefix("$ "), comments=True):
            yield words


def links(page: Path) -> list[str]:
    return [one or other for one, other in LINK.findall(prose(page.read_text()))]


def anchors(page: Path) -> set[str]:
    """As GitHub and MyST make them of headings."""
    return {_anchor(heading) for heading in HEADING.findall(prose(page.read_text()))}


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@dataclass(frozen=True)
class Edit:
    """One hunk of a diff: where the old lines stand in a file, the new ones come."""

    path: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        path = root / self.path
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.path} has these lines {text.count(self.old)} times:\n{self.old}"
        path.write_text(text.replace(self.old, self.new))


def edits(diff: str) -> list[Edit]:
    found, path = [], ""
    for hunk in re.split(r"^(?=@@|--- )", diff, flags=re.MULTILINE):
        lines = hunk.splitlines()
        if hunk.startswith("--- "):
            path = lines[1].removeprefix("+++ b/")
        elif hunk.startswith("@@"):
            old, new = ("".join(f"{line[1:]}\n" for line in lines[1:] if line[:1] in kept) for kept in (" -", " +"))
            found.append(Edit(path, old, new))
    return found
