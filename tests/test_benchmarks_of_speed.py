"""The commands that measure speed run, here on a hundred memories; what they print is not judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from lore_retriever.testing import HashEmbedder

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def run(folder: Path, script: str, database: str, *options: str) -> dict[str, Any]:
    """The figures of one command."""
    return told(folder, script, database, *options)[0]


def told(folder: Path, script: str, database: str, *options: str) -> tuple[dict[str, Any], str]:
    """The figures of one command, and what it printed."""
    path = folder / "figures.json"
    command = [sys.executable, "-W", "error", str(SCRIPTS / script), "--database", database]
    command += [] if "--corpus" in options else ["--dimensions", "16"]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent / "src")}
    done = subprocess.run(
        [*command, *options, "--json", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert done.stdout.count("|") > 10
    assert "dbname" not in json.dumps(made["arguments"])  # a connection string may hold a password
    return made, done.stdout


def test_the_comparison_with_peers_tells_what_it_is_for_where_no_peer_is_installed() -> None:
    blocked = (
        "import runpy, sys\n"
        "sys.modules.update(dict.fromkeys(('langchain_postgres', 'llama_index.vector_stores.postgres')))\n"
        "sys.argv = ['peers.py', '--help']\n"
        "runpy.run_path('peers.py', run_name='__main__')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPTS.parent / "src"), str(SCRIPTS)])}
    command = [sys.executable, "-c", blocked]
    done = subprocess.run(command, cwd=SCRIPTS, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--memories" in done.stdout


def test_a_search_is_set_beside_its_parts_and_what_has_no_95th_percentile_says_so(
    tmp_path: Path, empty_database: str
) -> None:
    few = ("--memories", "60", "--organisations", "20", "--questions", "4", "--rounds", "1")
    made, printed = told(tmp_path, "search.py", empty_database, *few)
    assert {row["system"] for row in made["rows"]} == {"search", "vector", "gin", "SELECT 1", "search / (vector + gin)"}
    assert "nan" not in printed
    assert "| – |" in printed


def test_a_store_is_weighed_and_its_searches_are_taken_apart(tmp_path: Path, empty_database: str) -> None:
    few = ("--memories", "100", "--organisations", "20")
    weighed = run(tmp_path, "footprint.py", empty_database, *few, "--questions", "5")
    assert weighed["bytes_per_memory"]["together"]["heap"] > 100
    held = weighed["megabytes"]
    if sys.platform == "linux":
        assert 0 < held["client, Python alone"] < held["client, connected"] <= held["client, after 5 searches"]
    parts = run(
        tmp_path, "parts.py", empty_database, *few, "--filled", "--questions", "6", "--rounds", "1", "--no-model"
    )
    assert {"whole search", "statement", "leg: vector", "leg: exact", "leg: relaxed", "leg: alias"} <= set(
        parts["parts"]
    )
    asked = ("--questions", "6", "--clients", "2", "--seconds", "0.2")
    served = run(tmp_path, "throughput.py", empty_database, *few, "--filled", *asked)
    assert served["ways"]["threads"]["2"]["per_second"] > 0
    started = run(tmp_path, "startup.py", empty_database, "--filled", "--starts", "1")
    assert started["steps"]["first search"]["p50"] > 0


def test_a_store_can_be_made_of_the_texts_and_vectors_of_a_corpus(tmp_path: Path, empty_database: str) -> None:
    passages = ["walrus colony ice floe tusk", "harbour crane barge pilot tide", "ledger invoice audit tax refund"]
    rows = [{"id": str(n), "text": passage} for n, passage in enumerate(passages)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"id": "q", "text": "walrus"}))
    (tmp_path / "qrels.tsv").write_text("query\tdocument\tgrade\nq\t0\t1\n")
    few = ("--memories", "60", "--organisations", "3", "--questions", "4", "--rounds", "1", "--no-model")
    made = run(tmp_path, "parts.py", empty_database, *few, "--corpus", str(tmp_path), "--model", "hash")
    assert made["parts"]["excerpts, as a statement of their own"]["p50"] > 0
    embedder = HashEmbedder()
    vectors = np.asarray(embedder.embed_texts(passages))
    with psycopg.connect(empty_database) as connection:
        stored = connection.execute(
            "SELECT m.content, v.embedding::real[] FROM lore.memories AS m JOIN lore.vectors AS v USING (org, key)"
            " WHERE v.ordinal = 0"
        ).fetchall()
    assert len(stored) == 60
    for content, vector in stored:
        words = {word for word in content.split() if not word.startswith("ERR-")}
        [passage] = [n for n, text in enumerate(passages) if words <= set(text.split())]
        assert np.argmax(vectors @ np.asarray(vector)) == passage


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("parts.py", "--passages", "0"), "'0' is no whole number from 1 on"),
        (("throughput.py", "--clients", "4", "0"), "'0' is no whole number from 1 on"),
        (("search.py", "--organisations", "-3"), "is no whole number from 1 on"),
        (("parts.py", "--json", "no/such/figures.json"), "'no/such/figures.json' cannot be written"),
        (
            ("parts.py", "--corpus", ".", "--dimensions", "16"),
            "--dimensions is 16; with --corpus the model's own are taken",
        ),
        (("search.py", "--corpus", "no/such"), "does not exist"),
        (("search.py", "--corpus", "{empty}", "--model", "hash"), "holds no text"),
        (
            ("search.py", "--corpus", "{binary}", "--model", "hash"),
            "corpus.jsonl is not UTF-8: byte 0xff at position 0",
        ),
    ],
)
def test_what_a_benchmark_cannot_run_on_is_told_in_a_line_before_it_begins(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    for name, corpus in (("empty", b""), ("binary", b"\xff\x00")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "corpus.jsonl").write_bytes(corpus)
        (tmp_path / name / "queries.jsonl").write_text("")
        (tmp_path / name / "qrels.tsv").write_text("query\tdocument\tgrade\n")
    script, *given = (each.format(empty=tmp_path / "empty", binary=tmp_path / "binary") for each in options)
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent / "src")}
    command = [sys.executable, str(SCRIPTS / script), *given, "--database", "host=nowhere.invalid"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_writing_is_timed_in_every_way_and_leaves_nothing_behind(tmp_path: Path, empty_database: str) -> None:
    few = ("--memories", "60", "--organisations", "20", "--rows", "12", "--batch", "6", "--singles", "3")
    ways = run(tmp_path, "writing.py", empty_database, *few)["ways"]
    assert ways["remember_many, 6 a call"]["memories"] == ways["COPY as an administrator"]["memories"] == 12
    assert ways["COPY as an administrator"]["windows"] >= 12
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT count(*) FROM lore.memories WHERE org = 'bulk'").fetchone() == (0,)


def test_hard_cases_are_asked_and_round_trips_counted(tmp_path: Path, empty_database: str) -> None:
    made = run(tmp_path, "hard.py", empty_database, "--memories", "60", "--questions", "4", "--delays", "0", "2")
    quick, slow = made["network"]
    assert quick["round_trips"] == slow["round_trips"] >= 1
    assert slow["p50"] >= 2 * slow["round_trips"]
    assert any("0.1 %" in case for case in made["cases"])


def test_the_same_tenants_are_asked_in_stores_of_two_sizes(tmp_path: Path, empty_database: str) -> None:
    prefix = f"lore_growth_{os.getpid()}_"
    sizes = ("--base", "60", "--sizes", "60", "180", "--tenant", "--questions", "4", "--rounds", "1")
    try:
        made = run(tmp_path, "growth.py", empty_database, *sizes, "--prefix", prefix)
        assert set(made["sizes"]) == {"60", "180", "a tenant of ten times the base"}
        with psycopg.connect(empty_database) as connection:
            found = connection.execute("SELECT datname FROM pg_database WHERE datname ^@ %s", [prefix]).fetchall()
        assert len(found) == 3
    finally:
        with psycopg.connect(empty_database, autocommit=True) as connection:
            for name in (f"{prefix}60", f"{prefix}180", f"{prefix}tenant"):
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(sql.Identifier(name)))
