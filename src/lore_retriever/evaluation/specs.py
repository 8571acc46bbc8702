"""Names suites: a folder or file by itself, or a TOML list that picks, filters and clips."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.loaders import (
    Granularity,
    load_beir,
    load_locomo,
    load_longmemeval,
    load_plain,
)
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.types import Record

__all__ = ["SuiteSpec", "open_suites", "read_specs"]

Layout = Literal["plain", "beir", "locomo", "longmemeval"]


class SuiteSpec(Record):
    """Where a suite stands and which part of it is asked.

    Attributes:
        name: Name in tables and records; the folder's or file's own by default.
        path: Folder (`plain`, `beir`) or JSON file (`locomo`, `longmemeval`).
        layout: How it is written; guessed from the files if None.
        qrels: File of the judgements (`plain`).
        split: Which qrels (`beir`).
        granularity: What a document is (`longmemeval`).
        filter: Metadata filter put on every query.
        where: Metadata that a query must have: key to the values allowed.
        where_not: Metadata that a query must not have.
        max_chars: Characters of a text that are kept; all if None.
    """

    path: Path
    name: str | None = None
    layout: Layout | None = None
    qrels: str = "qrels.tsv"
    split: str = "test"
    granularity: Granularity = "session"
    filter: dict[str, Any] | None = None
    where: dict[str, list[Any]] = Field(default_factory=dict)
    where_not: dict[str, list[Any]] = Field(default_factory=dict)
    max_chars: int | None = Field(default=None, ge=1)

    @property
    def called(self) -> str:
        """The name that the suite will have."""
        return self.name or (self.path.resolve().name if self.path.is_dir() else self.path.stem)

    def open(self) -> Suite:
        """The suite that this names, read from its files.

        Raises:
            InvalidInput: If the files cannot be read, or no query is left.
        """
        suite = self._load()
        if self.where or self.where_not:
            suite = suite.select(self._wanted)
        if self.filter is not None:
            suite = suite.filtered(self.filter)
        if self.max_chars is not None:
            suite = suite.clip(self.max_chars)
        if not suite.queries:
            raise InvalidInput(f"suite {suite.name!r} has no query left: see where = {self.where!r}.")
        return suite

    def _load(self) -> Suite:
        layout = self.layout or guess_layout(self.path)
        if layout == "plain":
            return load_plain(self.path, name=self.name, qrels=self.qrels)
        if layout == "beir":
            return load_beir(self.path, name=self.name, split=self.split)
        name = self.name or self.path.stem
        if layout == "locomo":
            return load_locomo(self.path, name=name)
        return load_longmemeval(self.path, name=name, granularity=self.granularity)

    def _wanted(self, query: Query) -> bool:
        has = all(query.metadata.get(key) in values for key, values in self.where.items())
        return has and all(query.metadata.get(key) not in values for key, values in self.where_not.items())


def guess_layout(path: Path) -> Layout:
    """How a folder or file is written, by the files in it and the name of it.

    Raises:
        InvalidInput: If it looks like none of the four.
    """
    if (path / "qrels").is_dir():
        return "beir"
    if (path / "corpus.jsonl").is_file():
        return "plain"
    if path.is_file() and path.suffix == ".json":
        return "locomo" if "locomo" in path.name.lower() else "longmemeval"
    raise InvalidInput(
        f"{path} is no suite: a folder with corpus.jsonl, queries.jsonl and qrels.tsv, a BEIR folder, "
        "or a LoCoMo or LongMemEval JSON file."
    )


def read_specs(path: str | Path) -> list[SuiteSpec]:
    """The suites that a TOML list names as `[[suite]]`, or the one that stands at `path` itself.

    Paths in a list are relative to the list.

    Raises:
        InvalidInput: If the list cannot be read or names a field that does not exist.
    """
    place = Path(path)
    if place.suffix != ".toml":
        return [SuiteSpec(path=place)]
    try:
        rows = tomllib.loads(place.read_text(encoding="utf-8")).get("suite", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{place} cannot be read: {error}.") from error
    if not rows:
        raise InvalidInput(f"{place} names no suite: write one under [[suite]].")
    return [_spec(row, place) for row in rows]


def open_suites(paths: Sequence[str | Path], *, only: Sequence[str] = ()) -> list[Suite]:
    """Every suite that the paths name, in order; with `only`, those of these names.

    Raises:
        InvalidInput: If two have one name, or a name in `only` is unknown.
    """
    specs = [spec for path in paths for spec in read_specs(path)]
    named = [spec.called for spec in specs]
    if missing := set(only) - set(named):
        raise InvalidInput(f"no suite is called {sorted(missing)!r}; there are {sorted(named)!r}.")
    suites = [spec.open() for spec in specs if not only or spec.called in only]
    names = [suite.name for suite in suites]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(f"suites {sorted(repeated)!r} come twice: give each a name of its own.")
    return suites


def _spec(row: Mapping[str, Any], place: Path) -> SuiteSpec:
    try:
        spec = SuiteSpec.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{place}: suite {row.get('name')!r}, {field}: {first['msg']}.") from error
    return spec.model_copy(update={"path": place.parent / spec.path})
