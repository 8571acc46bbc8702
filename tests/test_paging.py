"""Pages of a list, where colleagues share memories under ids that one uses oneself."""

from __future__ import annotations

from typing import Any

import pytest

from lore_retriever import NewMemory, NotFound


def pages(view: Any, limit: int) -> list[list[tuple[str, str]]]:
    """All pages, each after the last memory of the one before."""
    found: list[list[tuple[str, str]]] = []
    last = None
    while page := view.list(limit=limit, after=last):
        found.append([(memory.owner, memory.id) for memory in page])
        assert len(found) < 50, "pages without end"
        last = page[-1]
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_pages_hold_every_memory_once_although_a_colleague_uses_the_same_ids(either: Any, limit: int) -> None:
    ana, ben = either.as_user("acme", "ana"), either.as_user("acme", "ben")
    ana.remember_many([NewMemory(content=f"old {n}", id=f"old{n}") for n in range(3)])
    ben.remember_many([NewMemory(content=f"shared {n}", id=f"n{n}", visibility="shared") for n in range(2)])
    ana.remember_many([NewMemory(content=f"mine {n}", id=f"n{n}") for n in range(2)])
    whole = [(memory.owner, memory.id) for memory in ana.list()]
    assert len(whole) == 7
    assert [place for page in pages(ana, limit) for place in page] == whole


def test_a_page_after_a_memory_that_is_gone_is_an_error_and_not_the_end(either: Any) -> None:
    ana = either.as_user("acme", "ana")
    ana.remember("the walrus census", id="m")
    (last,) = ana.list()
    ana.forget("m")
    with pytest.raises(NotFound, match="no page comes after it"):
        ana.list(after=last)
    with pytest.raises(NotFound, match="no page comes after it"):
        ana.list(after="m")
