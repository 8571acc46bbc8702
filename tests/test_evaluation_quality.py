"""The command that puts every system into one table runs, and says what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "quality.py"


def test_without_the_peers_the_table_is_printed_and_they_are_said_to_be_missing(
    tmp_path: Path, empty_database: str
) -> None:
    texts = {name: f"The {name} was restarted, ticket ERR-{n}471." for n, name in enumerate(("gateway", "mailer"))}
    rows = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items())
    (tmp_path / "corpus.jsonl").write_text(rows)
    (tmp_path / "queries.jsonl").write_text(json.dumps({"id": "q", "text": "who restarted the gateway"}))
    (tmp_path / "qrels.tsv").write_text("query\tdocument\tgrade\nq\tgateway\t1\n")
    options = ("--model", "hash", "--peers", "nowhere/bin/python", "--database", empty_database)
    command = [sys.executable, "-W", "error", str(SCRIPT), str(tmp_path), *options]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "left out: there is no nowhere/bin/python" in done.stdout
    for system in ("fused", "vector", "bm25", "rrf bm25 + vectors", "convex, tuned here", "handwritten rrf"):
        assert f"│ {system} " in done.stdout
    assert "bm25: nowhere ahead of the fusion" in done.stdout
