"""Tries settings jointly: a grid over the knobs, a journal that a broken-off sweep goes on from, a choice."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from lore_retriever.errors import InvalidInput
from lore_retriever.types import Record

__all__ = [
    "Journal",
    "Trial",
    "choose",
    "grid",
    "leave_one_out",
    "one_value",
    "parse_knob",
    "parse_knobs",
    "point_name",
]

Point = Mapping[str, float]
"""One choice of knobs: name in `fusion_config` to value. Knobs that are absent keep their shipped default."""


class Trial(Record):
    """What one point of the grid measured on one suite.

    Attributes:
        point: The knobs that were set.
        means: Mean per measure.
        per_query: Value of each measure per query id.
    """

    point: dict[str, float]
    suite: str
    data_hash: str
    code_version: str
    means: dict[str, float]
    per_query: dict[str, dict[str, float]]


class Journal:
    """The trials of a sweep in a file, one JSON line each, written as they end.

    A line that was cut off by a crash is dropped, and its trial is made again.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._trials: dict[tuple[str, str, str, str], Trial] = {}
        for line in self._whole_lines():
            try:
                self._keep(Trial.model_validate_json(line))
            except ValidationError as error:
                raise InvalidInput(f"{path} is no journal of a sweep: {line[:80]!r}.") from error

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were made."""
        return list(self._trials.values())

    def find(self, point: Point, suite: str, data_hash: str, code_version: str) -> Trial | None:
        """The trial of this point on this suite, if it was made with the same data and code."""
        return self._trials.get((point_name(point), suite, data_hash, code_version))

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is in the file when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(trial.model_dump_json() + "\n")
        self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        self._trials[point_name(trial.point), trial.suite, trial.data_hash, trial.code_version] = trial

    def _whole_lines(self) -> list[str]:
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8")
        whole, _, rest = text.rpartition("\n")
        if rest:
            self._path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        return whole.splitlines()


def parse_knob(text: str) -> tuple[str, tuple[float, ...]]:
    """The knob and its values in `name=1,2,3`.

    Raises:
        InvalidInput: If it is not written so, or a value is no number.
    """
    name, _, values = text.partition("=")
    try:
        numbers = tuple(_number(value) for value in values.split(","))
    except ValueError:
        raise InvalidInput(f"knob {text!r} cannot be read: write it as bm25_b=0.4,0.75.") from None
    return name.strip(), numbers


def parse_knobs(texts: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """The values of every knob, each written as `parse_knob` reads it.

    Raises:
        InvalidInput: If one cannot be read, or comes twice.
    """
    knobs: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, values = parse_knob(text)
        if name in knobs:
            raise InvalidInput(f"knob {name!r} is given twice: write all its values once, as in {name}=1,2.")
        knobs[name] = values
    return knobs


def one_value(knobs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The value of every knob.

    Raises:
        InvalidInput: If a knob has several: only a sweep can try them.
    """
    for name, values in knobs.items():
        if len(values) > 1:
            raise InvalidInput(
                f"knob {name!r} has {len(values)} values, and only one can be put in use: give the one you want, such as"
                f" --knob {name}={values[0]:g}. `eval sweep` tries several."
            )
    return {name: values[0] for name, values in knobs.items()}


def grid(knobs: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of the knobs' values, the last knob changing fastest."""
    return [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]


def point_name(point: Point) -> str:
    """A short name (12 hexadecimal digits) that is the same for the same knobs in any order."""
    text = json.dumps({knob: float(value) for knob, value in point.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def choose(trials: Iterable[Trial], *, measures: Sequence[str] = ("R@10", "nDCG@10")) -> dict[str, float]:
    """The point with the best mean of the measures over all suites, each suite counting the same.

    Only points that were tried on every suite can be chosen; the first of equals is.

    Raises:
        InvalidInput: If no point was tried on every suite.
    """
    by_point: dict[str, dict[str, Trial]] = {}
    for trial in trials:
        by_point.setdefault(point_name(trial.point), {})[trial.suite] = trial
    suites = {suite for tried in by_point.values() for suite in tried}
    complete = [tried for tried in by_point.values() if tried.keys() == suites]
    if not complete:
        raise InvalidInput(f"no settings were tried on all of {sorted(suites)!r}: let the sweep finish.")
    best = max(complete, key=lambda tried: _merit(tried.values(), measures))
    return dict(next(iter(best.values())).point)


def leave_one_out(trials: Sequence[Trial], **options: Sequence[str]) -> dict[str, dict[str, float]]:
    """What would be chosen without each suite in turn: a choice that hangs on one suite shows here.

    Empty when there is only one suite.
    """
    suites = sorted({trial.suite for trial in trials})
    if len(suites) < 2:
        return {}
    return {left: choose([t for t in trials if t.suite != left], **options) for left in suites}


def _merit(trials: Iterable[Trial], measures: Sequence[str]) -> float:
    means = [sum(trial.means[name] for name in measures) / len(measures) for trial in trials]
    # Rounded, so that the order of summation cannot choose between equals.
    return round(sum(means) / len(means), 9)


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and "." not in text else value
