"""How much of the exact nearest neighbours do codes keep, and how much does the search keep as it is?

    python benchmarks/codes.py FOLDER --model offline --cache vectors.sqlite --one-scope
    python benchmarks/codes.py FOLDER --model minilm --cache vectors.sqlite --centre-from OTHER_FOLDER

For each question, within its scope: of the 10 and of the 40 memories closest by the model's own numbers, the share that
the code path returns when its P best codes are compared, forced whatever the size; and the share that the vector leg
returns as the sizes choose (an exact scan or codes). Vectors are real; the centre is the one that ships with the model, or
the mean of another folder's vectors, or (`--own-centre`) of this one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from figures import run_command
from measured import arguments, database_of, model_of, suite_of, windows_of
from psycopg.rows import dict_row

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.codes import recode
from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.embeddings.centre import mean_vector
from lore_retriever.evaluation.laboratory import scope_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.operations.common import halfvec_text

BUDGETS = (200, 400, 800, 1000, 1600)
DEPTHS = (10, 40)

CODES = "SELECT key FROM closest_codes(%(asked)s::halfvec, 1::smallint, %(centre)s::smallint, %(candidates)s, 40)"
GOES_BY_CODES = """
SELECT sum(s.windows) * (searched_space()).dimensions > (fusion()).scan_numbers AND (searched_space()).centre IS NOT NULL
FROM scope_statistics AS s WHERE s.org = scope_org()"""
SHIPPED = "SELECT key FROM vector_leg(%(asked)s::halfvec, 40, NULL, fusion())"


def centre_of(folder: Path, embedder: Embedder, *, most: int = 2_000) -> list[float]:
    """The mean vector of another corpus."""
    windows = [window for document in suite_of(folder).documents for window in windows_of(document.text, embedder)]
    step = max(1, len(windows) // most)
    return mean_vector(embedder.embed_texts(windows[::step]))


class Exact:
    """Nearest memories of a scope by the model's own numbers, in double precision."""

    def __init__(self, suite: Suite, embedder: Embedder) -> None:
        self._vectors: dict[str | None, np.ndarray[Any, Any]] = {}
        self._owners: dict[str | None, list[str]] = {}
        by_scope: dict[str | None, list[tuple[str, str]]] = {}
        for document in suite.documents:
            pairs = [(document.id, window) for window in windows_of(document.text, embedder)]
            by_scope.setdefault(document.scope, []).extend(pairs)
        for scope, pairs in by_scope.items():
            self._owners[scope] = [owner for owner, _ in pairs]
            self._vectors[scope] = np.asarray(embedder.embed_texts([window for _, window in pairs]))

    def nearest(self, vector: Vector, scope: str | None, k: int) -> list[str]:
        similarity = self._vectors[scope] @ np.asarray(vector)
        owners = self._owners[scope]
        found: dict[str, None] = {}
        for place in np.argsort(-similarity, kind="stable"):
            found.setdefault(owners[place])
            if len(found) == k:
                break
        return list(found)


def shares(exact: Sequence[str], found: Sequence[str]) -> list[float]:
    """Of the first 10 and 40 exact ones, the part that is among as many found."""
    return [len({*exact[:k]} & {*found[:k]}) / len(exact[:k]) for k in DEPTHS]


def measured(
    connection: psycopg.Connection[Any], suite: Suite, embedder: Embedder, centre: int | None
) -> Iterator[tuple[str, list[float]]]:
    """One row per question and system: the shares kept."""
    exact = Exact(suite, embedder)
    names: dict[int, str] = dict(connection.execute("SELECT key, id FROM memories").fetchall())
    queries = [query for query in suite.queries if len(query.texts) == 1 and suite.visible(query)]
    for query in queries:
        [vector] = embedder.embed_queries(query.texts)
        wanted = exact.nearest(vector, query.scope, max(DEPTHS))
        for system, keys in searches(connection, suite, query, vector, centre):
            yield system, shares(wanted, [names[key] for key in keys])


def searches(
    connection: psycopg.Connection[Any], suite: Suite, query: Query, vector: Vector, centre: int | None
) -> Iterator[tuple[str, list[int]]]:
    scope = scope_of(suite, query.scope)
    connection.execute(
        "SELECT set_config('lore.org_id', %s, false), set_config('lore.user_id', %s, false)", [scope.org, scope.user]
    )
    asked = {"asked": halfvec_text(vector), "centre": centre}
    for budget in BUDGETS if centre is not None else ():
        rows = connection.execute(CODES, {**asked, "candidates": budget}).fetchall()
        yield f"codes, P = {budget:,}", [row[0] for row in rows]
    by_codes = connection.execute(GOES_BY_CODES).fetchone() == (True,)
    way = "codes" if by_codes else "exact scan"
    yield f"vector leg as it ships ({way})", [row[0] for row in connection.execute(SHIPPED, asked).fetchall()]


def prepared(conninfo: str, suite: Suite, embedder: Embedder, centre: Vector | None, *, own_centre: bool) -> int | None:
    """A filled store; the generation of its codes."""
    admin = StoreAdmin.connect(conninfo)
    admin.migrate(embedder)
    with MemoryStore.connect(conninfo, embedder=embedder) as store:
        load_suite(suite, store)
    with psycopg.connect(conninfo, autocommit=True, row_factory=dict_row) as connection:
        row = connection.execute("SELECT * FROM lore.embedding_space WHERE state = 'active'").fetchone()
    assert row is not None
    if centre is not None or own_centre:
        recode(admin.service, row, centre=centre, anew=True)
    admin.maintain()
    with psycopg.connect(conninfo) as connection:
        [generation] = connection.execute(
            "SELECT centre FROM lore.embedding_space WHERE state = 'active'"
        ).fetchone() or [None]
    return generation


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--one-scope", action="store_true", help="put all texts into one organisation")
    parser.add_argument(
        "--centre-from", type=Path, metavar="FOLDER", help="take the mean of another corpus as the centre"
    )
    parser.add_argument("--own-centre", action="store_true", help="take the mean of this corpus as the centre")
    given = parser.parse_args()
    embedder = model_of(given.model, given.cache)
    suite = suite_of(given.folder, one_scope=given.one_scope)
    centre = None if given.centre_from is None else centre_of(given.centre_from, embedder)
    kept: dict[str, list[list[float]]] = {}
    with database_of(given.database) as conninfo:
        generation = prepared(conninfo, suite, embedder, centre, own_centre=given.own_centre)
        vectors = StoreAdmin.connect(conninfo).spaces()[0].vectors
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("SET search_path = lore, public")
            for system, found in measured(connection, suite, embedder, generation):
                kept.setdefault(system, []).append(found)
    which = "its own mean" if given.own_centre else given.centre_from or "the model's own"
    print(
        f"{suite.name} under {embedder.space}: {len(suite.documents):,} texts, {vectors:,} windows, centre: {which}\n"
    )
    print("| share kept of the exact | top 10 | top 40 | questions |\n|---|--:|--:|--:|")
    for system, rows in kept.items():
        top10, top40 = np.mean(rows, axis=0)
        print(f"| {system} | {top10:.3f} | {top40:.3f} | {len(rows):,} |")


if __name__ == "__main__":
    run_command(main)
