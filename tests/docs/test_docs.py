"""README and docs are true: their code runs, their commands and links exist, and people can read them."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

import pytest
import typer

from beno.cli import app
from beno.datasets.making import make
from beno.models import registry
from beno.problems.families import Family
from beno.problems.problem_file import ProblemFile
from tests.cli.test_cli import beno
from tests.docs.pages import MADE, PAGES, anchors, blocks, commands, edits, links, name_of, prose
from tests.places import ROOT

LONGEST_LINE = 120
PLACEHOLDER = re.compile(r"\.\.\.|…|<[a-z_ ]+>|\b(FOLDER|FILE|NAME|PATH|VALUE|OUT|TABLE)\b")
CHEAP = ("beno reproduce list", "beno data show four.h5 --plot", "beno data check four.h5", "beno plot")
PRIVATE = re.compile(r"#\d+\b|\b[WSDF]\d{1,2}\b|\bsessions?\b|\bissue \d|/work\b|/tmp\b")
every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def with_blocks(language):
    pages = [page for page in PAGES if any(block.language == language for block in blocks(page))]
    return pytest.mark.parametrize("page", pages, ids=name_of)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What readers of the pages have by then: two datasets, a run, and the example's problem."""
    folder = tmp_path_factory.mktemp("files")
    make(Family(resolution=16), 0, 20, folder / "four.h5")
    make(Family(corners=2, resolution=16), 1, 20, folder / "other.h5")
    run = ("--model", "fno", "--set", "width=4", "--set", "modes=3", "--set", "layers=2", "--epochs", 1)
    trained = beno("train", "--data", folder / "four.h5", *run, "--out", folder / "runs" / "four")
    assert trained.returncode == 0, trained.stderr
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "examples" / "cross.toml", folder)
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """A folder of a page's own with these files, and the tables of names as they were afterwards."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_KNOWN", dict(registry._KNOWN))
    from beno.paper import tables

    before = dict(tables.TABLES)
    yield tmp_path
    tables.TABLES.clear()
    tables.TABLES.update(before)


def run(source, page, line, names):
    """As a script of its own, whose lines are those of the page."""
    exec(compile("\n" * (line - 1) + source, name_of(page), "exec"), names)


def sections(page):
    """Blocks by heading: those with a diff need a copy of the package with its edits."""
    for _, of_section in groupby(blocks(page), key=lambda block: block.section):
        yield list(of_section)


@with_blocks("python")
def test_blocks_of_python_run(page, here):
    names = {"__name__": "page"}
    for section in sections(page):
        if not any(block.language == "diff" for block in section):
            for block in section:
                if block.language == "python":
                    run(block.text, page, block.line, names)


def with_diffs():
    return [
        pytest.param(page, section, id=f"{name_of(page)}: {section[0].section}")
        for page in PAGES
        for section in sections(page)
        if any(block.language == "diff" for block in section)
    ]


@pytest.mark.parametrize(("page", "section"), with_diffs())
def test_blocks_of_python_run_after_the_edits_above_them(page, section, here):
    shutil.copytree(ROOT / "src", here / "src", ignore=shutil.ignore_patterns("weights", "__pycache__"))
    source = "".join(block.text for block in section if block.language == "python")
    for block in section:
        for edit in edits(block.text) if block.language == "diff" else []:
            edit.apply(here)
    ran = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": str(here / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_count_of_files_to_edit_is_that_of_the_diffs():
    page = ROOT / "docs" / "extending.md"
    touched = {
        section[0].section: len({e.path for block in section if block.language == "diff" for e in edits(block.text)})
        for section in sections(page)
    }
    assert {name: count for name, count in touched.items() if count} == {
        "A metric": 1,
        "A law in datasets": 3,
        "A kind of wall": 4,
    }


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))], ids=name_of)
def test_commands_are_as_the_command_line_has_them(page, here):
    for words in commands(page):
        assert not PLACEHOLDER.search(" ".join(words)), words
        match words:
            case ["beno", *arguments] | ["torchrun", _, "-m", "beno", *arguments]:
                parse(arguments)
            case ["make", *targets]:
                known = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
                assert set(targets) <= set(known), words
            case ["python", script]:
                assert (ROOT / script).is_file(), words
            case _:
                assert words[0] in ("git", "pip", "pre-commit"), words
        if " ".join(words).startswith(CHEAP):
            ran = beno(*words[1:])
            assert ran.returncode == 0, (words, ran.stdout, ran.stderr)


def parse(arguments):
    """Find the command and read its options as Typer does, without running it."""
    command, context = typer.main.get_command(app), None
    names, rest = [], list(arguments)
    while hasattr(command, "commands"):
        names.append(rest.pop(0))
        assert names[-1] in command.commands, f"there is no beno {' '.join(names)}"
        command = command.commands[names[-1]]
    with contextlib.suppress(typer.Exit):
        context = command.make_context(names[-1], rest)
    assert context is not None


@with_blocks("toml")
def test_blocks_of_toml_can_be_read(page):
    for block in blocks(page):
        if block.language == "toml":
            content = tomllib.loads(block.text)
            if "boundary" in content:
                ProblemFile.model_validate(content).problem()


@every_page
def test_copyable_blocks_have_no_placeholder(page):
    for block in blocks(page):
        if block.language in ("python", "toml", "bash", "console"):
            code = block.text.replace("path=Path(", "")
            assert not PLACEHOLDER.search(code), f"{name_of(page)}, line {block.line}: {PLACEHOLDER.search(code)[0]}"


@every_page
def test_lines_are_not_too_long(page):
    long = [number for number, line in enumerate(page.read_text().splitlines(), 1) if len(line) > LONGEST_LINE]
    assert not long, f"{name_of(page)}: lines {long}"


@every_page
def test_links_lead_somewhere(page):
    for link in links(page):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{name_of(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)}: {link}"


@every_page
def test_nothing_private_is_told(page):
    assert not PRIVATE.search(prose(page.read_text())), PRIVATE.search(prose(page.read_text()))


@every_page
def test_no_sentence_leaves_its_noun_to_the_reader(page):
    found = re.search(r"(?:^|[.:] )(Of|That of|Those) (?!course)[^.]{0,40}", prose(page.read_text()), re.MULTILINE)
    assert not found, found[0]


def test_every_file_named_in_the_docs_is_there():
    named = re.compile(r"`((?:results|benchmarks|tests|docs|examples|src)/[\w./-]+\.(?:py|json|jsonl|md|toml))`")
    for page in PAGES:
        for path in named.findall(page.read_text()):
            assert (ROOT / path).exists(), f"{name_of(page)}: {path}"


def test_every_module_named_in_the_docs_is_there():
    named = re.compile(r"`(beno(?:\.\w+)+)")
    for page in PAGES:
        for name in named.findall(prose(page.read_text())):
            parts = name.split(".")
            while parts and not is_module(ROOT / "src" / Path(*parts)):
                parts.pop()
            assert len(parts) > 1 or name in KNOWN_AT_THE_TOP, f"{name_of(page)}: {name}"


KNOWN_AT_THE_TOP = {"beno.load", "beno.solve", "beno.solve_many", "beno.prepare"}


def is_module(path):
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_every_page_is_in_the_table_of_contents():
    index = (ROOT / "docs" / "index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or f"\n{path.stem}\n" in index, path.stem
    assert MADE
