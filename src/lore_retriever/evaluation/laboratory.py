"""Tries settings on a database without leaving a trace: every trial is rolled back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lore_retriever.config import FusionConfig
from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.legs import Place, combined, leg_ranking, leg_sets
from lore_retriever.evaluation.runs import Ranked, Run
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.operations.common import asked_vectors
from lore_retriever.operations.reading import filter_json
from lore_retriever.queries import query as statement
from lore_retriever.types import LEGS, LegName, Scope

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["Answer", "Laboratory", "Rows", "Session", "config_of", "rows_of", "scope_of", "write_config"]

Rows = list[dict[str, Any]]

_OUTCOME = ("accepted_run", "accepted_at")
"""Columns of fusion_config that tell where the knobs come from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one search found.

    Attributes:
        ranking: Ids and final scores, best first.
        places: Every memory that a leg proposed.
        measured: Cosine similarity and coverage of each hit, by id; None where that leg did not propose it.
    """

    ranking: list[tuple[str, float]]
    places: list[Place]
    measured: dict[str, tuple[float | None, float | None]]


class Laboratory:
    """A migrated database that holds suites, and the embedder of the space that is searched."""

    def __init__(self, admin: StoreAdmin, embedder: Embedder) -> None:
        self.admin = admin
        self.embedder = embedder

    def config(self) -> FusionConfig:
        """The settings in use."""
        with self.admin.service() as cursor:
            return _config_in_use(cursor)

    @contextmanager
    def trial(self, config: FusionConfig | None = None) -> Iterator[Session]:
        """Searches with these settings, or with those in use. Nothing that happens inside stays.

        Raises:
            PermissionDenied: If the connection may not act as the service role.
        """
        with self.admin.service() as cursor:
            cursor.execute("SAVEPOINT trial")
            try:
                if config is not None:
                    write_config(cursor, config)
                yield Session(cursor, self.embedder, _config_in_use(cursor))
            finally:
                # What ends otherwise, a crash above all, ends the whole transaction.
                cursor.execute("ROLLBACK TO SAVEPOINT trial")


class Session:
    """Searches inside one trial."""

    def __init__(self, cursor: psycopg.Cursor[Any], embedder: Embedder, config: FusionConfig) -> None:
        self._cursor = cursor
        self._embedder = embedder
        (row,) = cursor.execute("SELECT current_setting('search_path') AS path").fetchall()
        self._search_path = row["path"]
        self.config = config

    def rows(self, name: str, params: Mapping[str, Any]) -> Rows:
        """The rows of a statement of `sql/queries`, as the service role until something is asked."""
        return rows_of(self._cursor, name, params)

    def ask(self, query: Query, scope: Scope, *, k: int = 10, vectors: bool = True, places: bool = True) -> Answer:
        """Search as the user role under a scope.

        Args:
            k: Hits wanted; each leg's pool is this times `pool_multiplier`.
            vectors: False leaves the vector leg out.
            places: False leaves `Answer.places` empty, which takes half the time.
        """
        embedded = self._embedder.embed_queries(query.texts) if vectors else None
        asked = {
            "queries": list(query.texts),
            **asked_vectors(embedded, len(query.texts)),
            "k": k,
            "filter": filter_json(query.filter),
            "kinds": None,
            "as_of": query.as_of,
        }
        place = {"search_path": self._search_path, "role": "lore_user", "space": ""}
        rows_of(self._cursor, "enter_scope", {**place, "org": scope.org, "user": scope.user})
        hits = rows_of(self._cursor, "recall", asked)
        proposed = rows_of(self._cursor, "leg_places", asked) if places else []
        named = rows_of(self._cursor, "ids_of_keys", {"keys": [row["key"] for row in proposed]}) if places else []
        measured = {row["id"]: (row["similarity"], row["coverage"]) for row in hits}
        return Answer([(row["id"], row["score"]) for row in hits], _places(proposed, named), measured)

    def fused(self, suite: Suite, *, k: int = 10, code_version: str = "") -> Run:
        """The fused run of a suite by itself."""
        answers = {q.id: self.ask(q, scope_of(suite, q.scope), k=k, places=False) for q in suite.queries}
        return self._run(suite, "fused", {each: answer.ranking for each, answer in answers.items()}, code_version)

    def runs(self, suite: Suite, *, k: int = 10, code_version: str = "", vectors: bool = True) -> list[Run]:
        """The fused run of a suite, one run for each leg and one for each pair that found anything."""
        answers = {q.id: self.ask(q, scope_of(suite, q.scope), k=k, vectors=vectors) for q in suite.queries}
        rankings: dict[str, dict[str, list[tuple[str, float]]]] = {
            "fused": {each: answer.ranking for each, answer in answers.items()}
        }
        present = {leg for answer in answers.values() for place in answer.places for leg in place.ranks}
        for leg in (leg for leg in LEGS if leg in present):
            rankings[leg] = {each: leg_ranking(answer.places, leg) for each, answer in answers.items()}
        weights, rrf_k = self._weights(), self.config.rrf_k
        for name, legs in leg_sets(present).items():
            rankings[name] = {
                each: combined(answer.places, legs, weights, rrf_k=rrf_k)[:k] for each, answer in answers.items()
            }
        return [self._run(suite, system, found, code_version) for system, found in rankings.items()]

    def _weights(self) -> dict[LegName, float]:
        config = self.config
        return {
            "vector": config.vector_weight,
            "exact": config.exact_weight,
            "relaxed": config.relaxed_weight,
            "alias": config.alias_weight,
        }

    def _run(
        self, suite: Suite, system: str, found: Mapping[str, Sequence[tuple[str, float]]], code_version: str
    ) -> Run:
        space = str(self._embedder.space)
        return Run(
            suite=suite.name,
            system=system,
            rankings={each: tuple(Ranked(*place) for place in ranking) for each, ranking in found.items()},
            settings={**self.config.model_dump(), "space": space},
            data_hash=suite.fingerprint,
            code_version=code_version,
        )


def scope_of(suite: Suite, scope: str | None, owner: str | None = None) -> Scope:
    """Where a document or query of a suite lives: an organisation for each scope of each corpus, users in it.

    Suites with the same documents share what is loaded; a changed corpus gets organisations of its own.
    """
    return Scope(org=f"eval/{suite.corpus_fingerprint[:12]}/{scope or ''}", user=owner or "reader")


def rows_of(cursor: psycopg.Cursor[Any], name: str, params: Mapping[str, Any] | None = None) -> Rows:
    """The rows of a statement of `sql/queries`; none for a statement that returns none."""
    cursor.execute(statement(name), params)
    return cursor.fetchall() if cursor.description is not None else []


def config_of(knobs: Mapping[str, Any]) -> FusionConfig:
    """Settings with these knobs and the shipped defaults for all others.

    Raises:
        InvalidInput: If a knob does not exist or its value is out of range.
    """
    try:
        return FusionConfig(**knobs)
    except ValidationError as error:
        first = error.errors()[0]
        knob = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"knob {knob!r} = {knobs.get(knob)!r}: {first['msg']}.") from error


def write_config(cursor: psycopg.Cursor[Any], config: FusionConfig, *, run: int | None = None) -> None:
    """Replace the row of fusion_config, as the service role and in the caller's transaction.

    Args:
        run: The recorded acceptance that justifies it.
    """
    rows_of(cursor, "clear_fusion")
    rows_of(cursor, "write_fusion", {"knobs": config.model_dump_json(), "run": run})


def _config_in_use(cursor: psycopg.Cursor[Any]) -> FusionConfig:
    (row,) = rows_of(cursor, "fusion_in_use")
    return FusionConfig(**{name: value for name, value in row["knobs"].items() if name not in _OUTCOME})


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
