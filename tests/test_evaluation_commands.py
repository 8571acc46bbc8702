"""`lore-retriever eval` measures, compares, sweeps, accepts and undoes from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.bench import named_embedder
from lore_retriever.evaluation.commands import eval_app
from lore_retriever.evaluation.probe_sets import PROBES, make_probes
from lore_retriever.evaluation.suites import Document, Suite


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands") / "pg"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("suites") / "notes"
    home.mkdir()
    subjects = ["gateway", "mailer", "billing", "search", "backup", "scheduler", "cache", "proxy"]
    texts = {s: f"# Restart of the {s}\nThe {s} was restarted, ticket ERR-{n}471." for n, s in enumerate(subjects)}
    rows = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
    (home / "corpus.jsonl").write_text("\n".join(rows))
    queries = {"q1": "who restarted the gateway", "q2": "ERR-3471"}
    asked = [json.dumps({"id": each, "text": text}) for each, text in queries.items()]
    (home / "queries.jsonl").write_text("\n".join(asked))
    (home / "qrels.tsv").write_text("query\tdocument\tgrade\nq1\tgateway\t1\nq2\tsearch\t1\n")
    return home


def invoke(folder: Path, *words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(eval_app, [*map(str, words), "--folder", str(folder)])
    assert result.exit_code == code, result.output
    return result


def test_run_reports_legs_baselines_and_probes_as_json_and_saves_runs(
    folder: Path, notes: Path, tmp_path: Path
) -> None:
    saved, trec = tmp_path / "runs.json", tmp_path / "trec"
    words = ("run", notes, "--model", "hash", "--json", "--save", saved, "--trec", trec, "--record")
    reports = json.loads(invoke(folder, *words, "--probes", "identifiers", "--probes", "isolation").stdout)
    assert [report["suite"] for report in reports] == ["notes", "notes:identifiers", "notes:isolation"]
    rows = {row["system"]: row["means"] for row in reports[0]["rows"]}
    assert {"fused", "vector", "exact", "relaxed", "vector+exact", "bm25", "exact vectors"} <= rows.keys()
    assert rows["fused"]["Success@1"] == 1.0
    assert [report["leaks"] for report in reports] == [[], [], []]
    assert saved.exists()
    assert (trec / "notes-fused.run").read_text().startswith("q1 Q0 gateway 1 ")


def test_run_ends_with_all_suites_in_one_table_and_a_verdict_on_every_system(
    folder: Path, notes: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.md"
    printed = invoke(folder, "run", notes, "--model", "hash", "--probes", "identifiers", "--markdown", table).stdout
    written = table.read_text()
    assert written.startswith("| system | notes (2) | notes:identifiers (8) |")
    for system in ("fused", "exact", "bm25", "exact vectors", "rrf bm25 + vectors", "handwritten rrf"):
        assert f"\n| {system} | " in written
    assert "- bm25: nowhere ahead of the fusion" in written
    assert "bm25: nowhere ahead of the fusion" in printed


def test_compare_shows_where_two_runs_differ(folder: Path, notes: Path, tmp_path: Path) -> None:
    saved = tmp_path / "runs.json"
    invoke(folder, "run", notes, "--model", "hash", "--no-baselines", "--save", saved)
    words = ["compare", str(saved), str(saved), "--suites", str(notes), "--json"]
    result = CliRunner().invoke(eval_app, words)
    assert result.exit_code == 0, result.output
    (report,) = json.loads(result.stdout)
    assert (report["better"], report["worse"]) == (0, 0)
    assert [row["system"] for row in report["rows"]] == ["A", "B"]


def test_sweep_tries_all_combinations_and_goes_on_from_its_journal(folder: Path, notes: Path, tmp_path: Path) -> None:
    journal = tmp_path / "sweep.jsonl"
    words = ("sweep", notes, "--model", "hash", "--journal", journal, "--json")
    knobs = ("--knob", "rrf_k=20,60", "--knob", "exact_weight=0,1")
    found = json.loads(invoke(folder, *words, *knobs).stdout)
    assert len(found["trials"]) == 4
    assert found["chosen"] == {"rrf_k": 20, "exact_weight": 0}
    lines = journal.read_text()
    invoke(folder, *words, *knobs)
    assert journal.read_text() == lines


def test_accept_history_and_undo_tell_one_story(folder: Path, notes: Path) -> None:
    refused = invoke(
        folder,
        "accept",
        notes,
        "--model",
        "hash",
        "--knob",
        "relaxed_weight=0",
        "--knob",
        "exact_weight=0",
        "--knob",
        "vector_weight=0",
        code=1,
    )
    assert "refused: notes: R@10 falls from 1.0000 to 0.0000" in " ".join(refused.output.split())
    accepted = invoke(folder, "accept", notes, "--model", "hash", "--knob", "rrf_k=30")
    assert "accepted as run" in accepted.output
    (latest, *_) = json.loads(invoke(folder, "history", "--json").stdout)
    assert (latest["event"], latest["config"]["rrf_k"]) == ("accepted", 30)
    assert "the shipped defaults" in invoke(folder, "undo").output
    assert json.loads(invoke(folder, "history", "--json").stdout)[0]["event"] == "undone"


def test_a_typo_ends_a_command_before_anything_is_opened(notes: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nothing-starts-here"
    words = ("--model", "hash", "--folder", nowhere)
    for asked, told in (
        (("run", notes, "--only", "nots", *words), r"'nots'\]; there are \['notes'\]"),
        (("accept", notes, "--knob", "rrf_k=30,60", *words), "'rrf_k' has 2 values"),
    ):
        result = CliRunner().invoke(eval_app, [str(word) for word in asked])
        assert isinstance(result.exception, InvalidInput)
        assert re.search(told, str(result.exception))
    assert not nowhere.exists()


def test_probes_are_made_by_name_where_the_corpus_yields_them() -> None:
    suite = Suite("s", (Document("a", "# Restart of the gateway\nticket ERR-4471"),), (), {})
    assert [each.name for each in make_probes(suite, ["all"])] == [
        "s:identifiers",
        "s:in-sentences",
        "s:misspelt",
        "s:isolation",
    ]
    assert make_probes(suite, None) == []
    with pytest.raises(InvalidInput, match="'spelling'"):
        make_probes(suite, ["spelling", *PROBES])


def test_models_are_named(tmp_path: Path) -> None:
    assert named_embedder("hash").space.model == named_embedder("hash", tmp_path / "c.sqlite").space.model


@pytest.mark.parametrize("name", ["nope", "ofline", "all-MiniLM-L6-v2", ""])
def test_a_single_word_that_names_no_model_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"no model .*offline, e5, minilm or hash.*organisation"):
        named_embedder(name)
