"""The load of `benchmarks/soak.py`, for some seconds: kills, retries, and nothing amiss. `make soak` runs it longer."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from lore_retriever import MemoryStore
from lore_retriever.testing import HashEmbedder

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "soak.py"


def test_mixed_load_while_the_server_dies_three_times_leaves_nothing_amiss() -> None:
    command = [sys.executable, str(SCRIPT), "--operations", "800", "--kills", "3", "--clients", "4", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == []
    assert found["operations"] >= 800
    assert (found["kills_of_the_server"], found["kills_of_a_backend"]) == (2, 1)
    assert set(found["errors"]) <= {"IdTaken", "StoreUnavailable"}
    assert done.returncode == 0


# --- the load would notice


@pytest.fixture(scope="module")
def soak() -> Iterator[SimpleNamespace]:
    """The modules of the load."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        names = ("soak_checks", "soak_client", "soak_model")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(SCRIPT.parent))


CORRUPTIONS = {
    "DELETE FROM vectors": "windows without a vector",
    "DELETE FROM windows": "memories without windows",
    "UPDATE windows SET window_end = window_end - 1": "windows end before",
    "UPDATE vectors SET shared = true": "vectors that say something else",
    "UPDATE vectors SET live = false": "vectors that say something else",
    "UPDATE vectors SET embedding = array_fill(0.5::real, ARRAY[32])::halfvec": "not that of its text",
    "UPDATE aliases SET shared = true": "aliases that say something else",
    "SET session_replication_role = replica; DELETE FROM memories": "orphans in windows",
    "SET session_replication_role = replica; DELETE FROM windows": "orphans in vectors",
}


@pytest.mark.parametrize("change", CORRUPTIONS)
def test_the_checks_name_each_row_that_must_not_be(
    soak: SimpleNamespace, store: MemoryStore, admin_connection: psycopg.Connection[Any], database: str, change: str
) -> None:
    store.as_user("acme", "ana").remember("the walrus census", id="m", aliases=("tusks",))
    before, after = soak.soak_model.Ledger(), soak.soak_model.Ledger()
    soak.soak_checks.check_tables(before, database, HashEmbedder(32), is_settled=False)
    assert before.violations == []
    admin_connection.execute(change.encode())
    soak.soak_checks.check_tables(after, database, HashEmbedder(32), is_settled=False)
    assert any(CORRUPTIONS[change] in what for what in after.violations), after.violations


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda ana: ana.forget("n1"), "lost 'n1'"),
        (lambda ana: ana.update("n1", content="another text"), "'n1' is"),
        (lambda ana: ana.update("n1", kind="changed"), "'n1' is"),
        (lambda ana: ana.invalidate("n1"), "lacks {'n1'}"),
        (lambda ana: ana.remember("one more", id="n2"), "has {'n2'}"),
    ],
)
def test_a_client_notices_what_it_did_not_do(
    soak: SimpleNamespace, store: MemoryStore, change: Callable[[Any], object], named: str
) -> None:
    ledger = soak.soak_model.Ledger()
    ana = store.as_user("acme", "ana")
    client = soak.soak_client.Client(("acme", "ana"), ana, store.as_user("acme", "all"), ledger, 1)
    client._remember("n1")
    soak.soak_checks.check_users(ledger, [client])
    assert ledger.violations == []
    change(ana)
    soak.soak_checks.check_users(ledger, [client])
    assert any(named in what for what in ledger.violations), ledger.violations


def test_a_client_notices_a_row_that_nobody_shared_with_it(soak: SimpleNamespace, store: MemoryStore) -> None:
    ledger = soak.soak_model.Ledger()
    ben = soak.soak_client.Client(("acme", "ben"), store.as_user("acme", "ben"), None, ledger, 1)
    ben._list("")
    assert ledger.violations == []
    store.as_user("acme", "ana").remember("⟦globex/eve⟧ never meant for ben", id="n1", visibility="shared")
    ben._list("")
    ben._get("n1")
    assert sum("saw 'n1' of 'ana'" in what for what in ledger.violations) == 2
    assert any("saw a text of globex" in what for what in ledger.violations)
