"""Tries settings on a database without leaving a trace: every trial is rolled back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.legs import Place, combined, leg_ranking, leg_sets
from lore_retriever.evaluation.runs import Ranked, Run
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.migrations import search_path
from lore_retriever.operations.common import halfvec_text
from lore_retriever.operations.reading import filter_json
from lore_retriever.queries import query as statement
from lore_retriever.types import LEGS, LegName, Scope

__all__ = ["Answer", "Connection", "Laboratory", "Rows", "Session", "rows_of", "scope_of"]

Rows = list[dict[str, Any]]

_OUTCOME = ("accepted_run", "accepted_at")
"""Columns of fusion_config that tell where the knobs come from."""


class Connection(Protocol):
    """What a psycopg connection in autocommit offers here; its role may act as the service role."""

    def execute(self, query: Any, params: Any = None) -> Any:
        """Runs one statement and returns its cursor."""

    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AbstractContextManager[Any]:
        """One transaction; with `force_rollback` nothing of it stays."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one search found.

    Attributes:
        ranking: Ids and final scores, best first.
        places: Every memory that a leg proposed.
    """

    ranking: list[tuple[str, float]]
    places: list[Place]


class Laboratory:
    """A migrated database that holds suites, and the embedder of its active space.

    Args:
        connection: An administrator's, in autocommit.
        schema: Where the store lives.
    """

    def __init__(self, connection: Connection, embedder: Embedder, *, schema: str = "lore") -> None:
        self.connection = connection
        self.embedder = embedder
        schemas = [row["name"] for row in rows_of(connection, "extension_schemas")]
        self.search_path = search_path(schema, schemas)

    def enter_service(self) -> None:
        """Act as the service role until the transaction ends."""
        rows_of(self.connection, "enter_service", {"search_path": self.search_path})

    def knobs(self) -> dict[str, float]:
        """The knobs in use, shipped defaults included."""
        with self.connection.transaction():
            self.enter_service()
            (row,) = rows_of(self.connection, "fusion_in_use")
        return {name: value for name, value in row["knobs"].items() if name not in _OUTCOME}

    @contextmanager
    def trial(self, knobs: Mapping[str, float] | None = None) -> Iterator[Session]:
        """Searches with these knobs and the shipped defaults for all others; None keeps the knobs in use.

        Nothing that happens inside stays.

        Raises:
            InvalidInput: If a knob does not exist. A value out of range is the database's own error.
        """
        with self.connection.transaction(force_rollback=True):
            self.enter_service()
            if knobs is not None:
                self.write_knobs(knobs)
            (row,) = rows_of(self.connection, "fusion_in_use")
            yield Session(self, row["knobs"])

    def write_knobs(self, knobs: Mapping[str, Any]) -> None:
        """Replace the row of fusion_config, inside the caller's transaction, as the service role.

        Raises:
            InvalidInput: If a knob does not exist.
        """
        rows_of(self.connection, "clear_fusion")
        (row,) = rows_of(self.connection, "fusion_in_use")
        if unknown := sorted(knobs.keys() - row["knobs"].keys()):
            known = sorted(row["knobs"].keys() - set(_OUTCOME))
            raise InvalidInput(f"knobs {unknown!r} do not exist; there are {known!r}.")
        rows_of(self.connection, "write_fusion", {"knobs": json.dumps(dict(knobs))})


class Session:
    """Searches inside one trial."""

    def __init__(self, laboratory: Laboratory, knobs: Mapping[str, Any]) -> None:
        self._laboratory = laboratory
        self.knobs = {name: value for name, value in knobs.items() if name not in _OUTCOME}

    def ask(self, query: Query, scope: Scope, *, k: int = 10, vectors: bool = True) -> Answer:
        """Search as the user role under a scope.

        Args:
            k: Hits wanted; each leg's pool is this times `pool_multiplier`.
            vectors: False leaves the vector leg out.
        """
        laboratory = self._laboratory
        connection = laboratory.connection
        embedded = laboratory.embedder.embed_queries(query.texts) if vectors else None
        asked = {
            "queries": list(query.texts),
            "embeddings": None if embedded is None else [halfvec_text(vector) for vector in embedded],
            "k": k,
            "filter": filter_json(query.filter),
            "kinds": None,
            "as_of": query.as_of,
        }
        place = {"search_path": laboratory.search_path, "role": "lore_user", "space": ""}
        rows_of(connection, "enter_scope", {**place, "org": scope.org, "user": scope.user})
        hits = rows_of(connection, "recall", asked)
        proposed = rows_of(connection, "leg_places", asked)
        named = rows_of(connection, "ids_of_keys", {"keys": [row["key"] for row in proposed]})
        return Answer([(row["id"], row["score"]) for row in hits], _places(proposed, named))

    def runs(self, suite: Suite, *, k: int = 10, code_version: str = "", vectors: bool = True) -> list[Run]:
        """The fused run of a suite, one run for each leg and one for each pair that found anything."""
        answers = {q.id: self.ask(q, scope_of(suite, q.scope), k=k, vectors=vectors) for q in suite.queries}
        rankings: dict[str, dict[str, list[tuple[str, float]]]] = {
            "fused": {each: answer.ranking for each, answer in answers.items()}
        }
        present = {leg for answer in answers.values() for place in answer.places for leg in place.ranks}
        for leg in (leg for leg in LEGS if leg in present):
            rankings[leg] = {each: leg_ranking(answer.places, leg) for each, answer in answers.items()}
        weights, rrf_k = self._weights(), int(self.knobs["rrf_k"])
        for name, legs in leg_sets(present).items():
            rankings[name] = {
                each: combined(answer.places, legs, weights, rrf_k=rrf_k)[:k]
                for each, answer in answers.items()
            }
        return [self._run(suite, system, found, code_version) for system, found in rankings.items()]

    def _weights(self) -> dict[LegName, float]:
        return {leg: float(self.knobs[f"{leg}_weight"]) for leg in LEGS}

    def _run(
        self, suite: Suite, system: str, found: Mapping[str, Sequence[tuple[str, float]]], code_version: str
    ) -> Run:
        space = str(self._laboratory.embedder.space)
        return Run(
            suite=suite.name,
            system=system,
            rankings={each: tuple(Ranked(*place) for place in ranking) for each, ranking in found.items()},
            settings={**self.knobs, "space": space},
            data_hash=suite.fingerprint,
            code_version=code_version,
        )


def scope_of(suite: Suite, scope: str | None, owner: str | None = None) -> Scope:
    """Where a document or query of a suite lives: an organisation for each scope of each corpus, users in it.

    Suites with the same documents share what is loaded; a changed corpus gets organisations of its own.
    """
    return Scope(org=f"eval/{suite.corpus_fingerprint[:12]}/{scope or ''}", user=owner or "reader")


def rows_of(connection: Connection, name: str, params: Mapping[str, Any] | None = None) -> Rows:
    """The rows of a statement of `sql/queries`, as dictionaries; none for a statement that returns none."""
    cursor = connection.execute(statement(name), params)
    if cursor.description is None:
        return []
    columns = [column.name for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _places(proposed: Rows, named: Rows) -> list[Place]:
    visible = {row["key"]: row for row in named}
    return [
        Place(
            id=visible[row["key"]]["id"],
            created_at=visible[row["key"]]["created_at"],
            relevance=row["relevance"],
            ranks={leg: row[f"{leg}_rank"] for leg in LEGS if row[f"{leg}_rank"] is not None},
        )
        for row in proposed
        if row["key"] in visible
    ]
