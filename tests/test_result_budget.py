"""The whole result of a search is bounded: what does not fit is left out from the bottom, and counted."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from cli_tools import ana_of
from lore_retriever import NewMemory

LONG = "walrus pool, northern side. " * 200  # comes as an excerpt of some 1,200 characters


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


@pytest.fixture
def filled(ana: Any) -> Any:
    """100 memories that all match, each of which takes some 1,500 characters of a result."""
    ana.remember_many([NewMemory(content=f"{LONG} number {n}", id=f"w{n:02}") for n in range(100)], embed=False)
    return ana


def set_budget(connection: psycopg.Connection[Any], characters: int) -> None:
    connection.execute("UPDATE settings SET result_budget = %s", [characters])


def test_ten_hits_come_whole_and_a_hundred_are_cut_from_the_bottom(filled: Any) -> None:
    ten = filled.recall("walrus pool")
    assert (len(ten.hits), ten.omitted) == (10, 0)
    most = filled.recall("walrus pool", limit=100)
    assert 25 < len(most.hits) < 100
    assert len(most.hits) + most.omitted == 100
    assert [hit.rank for hit in most.hits] == list(range(1, len(most.hits) + 1))
    assert len(most.model_dump_json()) < 100_000
    assert [hit.id for hit in filled.recall("walrus pool", limit=20).hits] == [hit.id for hit in most.hits[:20]]


def test_a_smaller_budget_keeps_the_first_of_the_same_order(
    filled: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    order = [hit.id for hit in filled.recall("walrus pool", limit=20).hits]
    for characters, least, most in ((10_000, 4, 8), (4_000, 1, 3), (1, 1, 1)):
        set_budget(admin_connection, characters)
        found = filled.recall("walrus pool", limit=20)
        assert least <= len(found.hits) <= most
        assert [hit.id for hit in found.hits] == order[: len(found.hits)]
        assert found.omitted == 20 - len(found.hits)


def test_the_first_hit_is_never_left_out_however_large(ana: Any, admin_connection: psycopg.Connection[Any]) -> None:
    ana.remember("walrus pool", id="large", metadata={"note": "x" * 60_000})
    ana.remember("walrus pool, and the seals' as well", id="small")
    found = ana.recall("walrus pool")
    assert found.hits[0].id == "large"
    assert (len(found.hits), found.omitted) == (1, 1)


def test_a_budget_below_one_is_refused(admin_connection: psycopg.Connection[Any]) -> None:
    for characters in (0, -1):
        with pytest.raises(psycopg.errors.CheckViolation):
            set_budget(admin_connection, characters)


def test_nothing_found_leaves_nothing_out(ana: Any) -> None:
    found = ana.recall("walrus")
    assert (found.hits, found.omitted) == ((), 0)


def test_the_keeper_sets_the_budget_and_no_one_else(
    database: str, app_database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    keeper, member = ana_of(database), ana_of(app_database)
    assert keeper("config", "result-budget", "800").stdout == "results end at 800 characters\n"
    assert admin_connection.execute("SELECT result_budget FROM settings").fetchone() == (800,)
    assert '"result_budget": 800' in keeper("config", "show", "--json").stdout
    for wrong in ("0", "2147483648"):
        refused = keeper("config", "result-budget", wrong)
        assert (refused.exit_code, f"is {wrong}; give a number" in " ".join(refused.stderr.split())) == (1, True)
    refused = member("config", "result-budget", "900")
    assert (refused.exit_code, "administrator" in refused.stderr) == (1, True)
    assert admin_connection.execute("SELECT result_budget FROM settings").fetchone() == (800,)
