"""Files of results in JSON: written whole, and read with every value checked, since anyone may have edited them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeGuard

from beno.support.errors import BenoError
from beno.support.files import require_folder, whole_file_or_none

REMEDY = "remove it, and it is made again"
LARGEST = 1e300  # of a number that a page can print

Stored = dict[str, object]  # an object of a file
Upgrade = Callable[[Stored], Stored]  # from what a version has to what the next one has


class Damaged(BenoError):
    """A file lacks something, or has it of another type."""


@dataclass(frozen=True)
class Checked:
    """An object of a file, each value of which is checked as it is asked for."""

    values: Stored
    within: str = ""  # where in the file it is, for messages

    def text(self, name: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else self._refuse(name)

    def text_or_none(self, name: str) -> str | None:
        return None if self.values.get(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """There may be none."""
        values = self.values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self._refuse(name)
        return tuple(values)

    def flag(self, name: str) -> bool:
        """False if it is not there."""
        value = self.values.get(name, False)
        return value if isinstance(value, bool) else self._refuse(name)

    def amount(self, name: str) -> int | float:
        """A number that is not negative."""
        value = self.values.get(name)
        return value if _is_number(value) and value >= 0 else self._refuse(name)

    def count(self, name: str) -> int:
        value = self.amount(name)
        return value if isinstance(value, int) else self._refuse(name)

    def numbers(self, name: str) -> list[float]:
        """There must be some."""
        values = self.values.get(name)
        if not isinstance(values, list) or not values or not all(map(_is_number, values)):
            self._refuse(name)
        return [float(value) for value in values]

    def object(self, name: str) -> Stored:
        value = self.values.get(name)
        return value if isinstance(value, dict) else self._refuse(name)

    def part(self, name: str) -> "Checked":
        return Checked(self.object(name), f"{self.within}{name}.")

    def _refuse(self, name: str) -> NoReturn:
        raise Damaged(f"{self.within}{name} is not what it should be")


def _is_number(value: object) -> TypeGuard[int | float]:
    """Whether a page can print it: it is no truth value, nor a whole number beyond all floating-point ones."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def read_object(path: Path) -> Stored:
    """An object of which nothing else is known yet."""
    try:
        stored = json.loads(path.read_text())
    except OSError as error:
        raise BenoError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BenoError(f"{path} cannot be read: {error}; {REMEDY}") from error
    if not isinstance(stored, dict):
        raise BenoError(f"{path} is damaged: it holds no JSON object; {REMEDY}")
    return stored


@dataclass(frozen=True)
class FileFormat:
    """A kind of file with its versions: old ones are read as the newest."""

    name: str
    upgrades: Sequence[Upgrade]  # from version 1 to 2, and so on

    @property
    def version(self) -> int:
        return 1 + len(self.upgrades)

    def read(self, path: Path, smoke: bool) -> Stored:
        """What a file of this format holds, if it was made in a run of this size."""
        stored = read_object(path)
        if stored.get("format") != self.name:
            raise BenoError(f"{path} is no {self.name}")
        version = stored.get("version")
        if not isinstance(version, int) or not 1 <= version <= self.version:
            raise BenoError(f"{path} has version {version!r}; this beno reads up to {self.version}: use another folder")
        if stored.get("smoke") != smoke:
            raise BenoError(f"{path} was {'' if stored.get('smoke') else 'not '}made with --smoke: use another folder")
        for upgrade in self.upgrades[version - 1 :]:
            stored = upgrade(stored)
        return stored

    def write(self, path: Path, smoke: bool, content: Stored, indent: int | None = None) -> None:
        whole = {"format": self.name, "version": self.version, "smoke": smoke, **content}
        require_folder(path.parent)
        with whole_file_or_none(path) as unfinished:
            unfinished.write_text(json.dumps(whole, indent=indent, default=str) + "\n")
