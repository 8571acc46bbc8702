"""What a system answered: one ranking per query, with all that is needed to repeat and to compare it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.files import replacing
from lore_retriever.types import Record, Strength

__all__ = ["Ranked", "Run", "load_runs", "record", "save_runs", "to_trec"]


class Ranked(NamedTuple):
    """One place in a ranking: a document and the score that put it there (larger is better)."""

    id: str
    score: float


class Run(Record):
    """One system's rankings on one suite.

    Attributes:
        suite: Name of the suite.
        system: What answered: `fused`, a leg, a pair of legs, a baseline.
        rankings: Per query id, the documents best first, without repeats. A query that found nothing
            has an empty ranking; a query that is absent was not asked.
        latency_ms: Per query id, milliseconds from call to result; empty where it was not measured.
        evidence: Per query id, how strong the system itself calls its best evidence (`strong`, `medium`,
            `weak`, `none`); empty where it says nothing.
        settings: Every setting that decided the rankings, JSON-clean.
        data_hash: `Suite.fingerprint` of what was searched.
        code_version: Version of the code that searched.
        created_at: When it ran.
    """

    suite: str
    system: str
    rankings: dict[str, tuple[Ranked, ...]]
    latency_ms: dict[str, float] = Field(default_factory=dict)
    evidence: dict[str, Strength] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    data_hash: str = ""
    code_version: str = ""
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    def ids(self, query_id: str) -> list[str]:
        """Document ids for one query, best first; empty if it found nothing or was not asked."""
        return [place.id for place in self.rankings.get(query_id, ())]


def record(
    suite: Suite,
    system: str,
    search: Callable[[Query], Sequence[tuple[str, float]]],
    *,
    settings: Mapping[str, Any] | None = None,
    code_version: str = "",
) -> Run:
    """Ask `search` every query of the suite, in order, and keep what it answers."""
    rankings = {query.id: tuple(Ranked(*place) for place in search(query)) for query in suite.queries}
    return Run(
        suite=suite.name,
        system=system,
        rankings=rankings,
        settings=dict(settings or {}),
        data_hash=suite.fingerprint,
        code_version=code_version,
    )


def save_runs(runs: Sequence[Run], path: str | Path) -> None:
    """Write runs as one JSON list; the file appears whole or not at all."""
    rows = [run.model_dump(mode="json") for run in runs]
    with replacing(Path(path)) as file:
        file.write(json.dumps(rows, ensure_ascii=False))


def load_runs(path: str | Path) -> list[Run]:
    """The runs of a file that `save_runs` wrote.

    Raises:
        InvalidInput: If the file is missing or holds something else.
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return [Run.model_validate(row) for row in rows]
    except (OSError, ValueError, RecursionError, TypeError) as error:
        raise InvalidInput(f"{path} holds no runs: write it with `eval run --save`. ({error})") from error


def to_trec(run: Run) -> str:
    """The run as TREC tools read it: `query Q0 document rank score tag`, one line a place.

    The format separates by white space, so white space inside an id becomes `%20` and the like. Scores fall
    strictly with rank, since those tools order by score and break ties their own way.
    """
    tag = _word(run.system)
    lines = [
        f"{_word(query)} Q0 {_word(place.id)} {rank} {len(places) - rank + 1} {tag}"
        for query, places in run.rankings.items()
        for rank, place in enumerate(places, start=1)
    ]
    return "".join(f"{line}\n" for line in lines)


def _word(text: str) -> str:
    return re.sub(r"\s", lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)
