"""Generations of codes: what a vector's signs are taken against, and a new one built beside the one that is searched.

Searches read the generation that `embedding_space.centre` names. A new one is filled while the old one serves, then
named, in one statement; only then the old one goes. Interrupted at any point, the next run goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from lore_retriever.draining import Service
from lore_retriever.embeddings.base import Vector
from lore_retriever.operations.common import halfvec_text
from lore_retriever.queries import query
from lore_retriever.spaces import LEAST_CODE_DIMENSIONS, again, wait_for_writers
from lore_retriever.steps import Row

__all__ = ["LEAST_SAMPLE", "recode"]

LEAST_SAMPLE = 1_000
"""Vectors that a centre is measured from at least: fewer are scanned anyway, and their mean would tell too much of each."""

SAMPLE = 20_000
"""Vectors that are drawn: the mean of 2,000 is within 0.02 of that of all, in every number of it, at any size."""

VECTORS_AT_ONCE = 1_000
"""Vectors that get codes in one transaction, and are locked meanwhile."""

CODES_AT_ONCE = 10_000


def recode(
    service: Service,
    row: Row,
    *,
    centre: Vector | None = None,
    anew: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """See that a space has the codes it should have; how many were written.

    Args:
        row: The space, a row of `spaces`.
        centre: What signs are taken against, where it is known; else the mean of a sample of the space's vectors.
        anew: Begin a new generation although there is one.
        progress: Called with (codes written, all that lack).
    """
    if row["dimensions"] < LEAST_CODE_DIMENSIONS:
        return 0
    number = row["space"]
    target = _target(service, number, row["centre"], centre, anew)
    if target is None:
        return 0
    if target != row["centre"]:
        # Writers that began before it was there write no codes of it; all later ones do.
        wait_for_writers(service)
    written = _fill(service, number, target, progress)
    if target != row["centre"]:
        again(service, "use_generation", {"space": number, "centre": target})
    _clear_retired(service, number)
    return written


def _target(service: Service, number: int, current: int | None, centre: Vector | None, anew: bool) -> int | None:
    """The generation to fill: one that was begun, a new one where there is none or one is wanted, else the current."""
    with service() as cursor:
        cursor.execute(
            query("all_spaces")
        )  # locks them: of two runs at once, the second helps with the first's generation
        found = cursor.execute(query("generations"), {"space": number}).fetchall()
        begun = next((int(row["centre"]) for row in found if not row["retired"] and row["centre"] != current), None)
        if begun is not None or (current is not None and not anew):
            return current if begun is None else begun
        if centre is not None:
            params: dict[str, object] = {"space": number, "embedding": halfvec_text(centre)}
            made = cursor.execute(query("insert_centre"), params).fetchone()
        else:
            about = cursor.execute(query("vectors_at_most")).fetchone()
            percent = min(100.0, 100.0 * SAMPLE / max(1, about["vectors"] if about else 0))
            params = {"space": number, "percent": percent, "least": LEAST_SAMPLE}
            made = cursor.execute(query("measure_centre"), params).fetchone()
        return None if made is None else int(made["centre"])


def _fill(service: Service, number: int, centre: int, progress: Callable[[int, int], None] | None) -> int:
    """Write the codes that a generation lacks."""
    with service() as cursor:
        counted = cursor.execute(query("missing_codes"), {"space": number, "centre": centre}).fetchone()
        missing = counted["missing"] if counted else 0
    if not missing:
        return 0
    place: dict[str, object] = {"org": "", "key": 0, "ordinal": 0}
    written = 0
    while True:
        params = {"space": number, "centre": centre, "limit": VECTORS_AT_ONCE, **place}
        last, _ = again(service, "fill_codes", params)
        if last is None:
            return written
        place = {name: last[name] for name in ("org", "key", "ordinal")}
        written += last["written"]
        if progress is not None:
            progress(min(written, missing), missing)


def _clear_retired(service: Service, number: int) -> None:
    """Remove generations that get no more codes, once nobody can be writing any."""
    with service() as cursor:
        found = cursor.execute(query("generations"), {"space": number}).fetchall()
    retired = [row["centre"] for row in found if row["retired"]]
    if not retired:
        return
    wait_for_writers(service)
    for centre in retired:
        which: dict[str, object] = {"space": number, "centre": centre}
        with service() as cursor:
            orgs = [row["org"] for row in cursor.execute(query("coded_organisations"), which).fetchall()]
        for org in orgs:
            params = {**which, "org": org, "limit": CODES_AT_ONCE}
            while again(service, "delete_codes", params)[1]:
                pass
        again(service, "delete_generation", which)
