"""On a real database: suites are loaded once, trials leave no trace, only what is no worse is accepted."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from lore_retriever import FusionConfig, InvalidInput, MemoryStore, PermissionDenied, embedded
from lore_retriever.admin import StoreAdmin
from lore_retriever.evaluation.calibration import fit_evidence
from lore_retriever.evaluation.decisions import accept, apply_evidence, history, recorded_run, undo
from lore_retriever.evaluation.laboratory import Laboratory, config_of, scope_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.measures import find_leaks, measure
from lore_retriever.evaluation.probes import isolation_probes
from lore_retriever.evaluation.report import build_report
from lore_retriever.evaluation.runner import (
    ask_store,
    baseline_runs,
    code_version,
    evidence_samples,
    fused_run,
    handwritten_run,
    trial_runs,
)
from lore_retriever.evaluation.suites import Document, Query, Suite
from lore_retriever.testing import HashEmbedder

EMBEDDER = HashEmbedder(64)
BAD = FusionConfig(vector_weight=0, exact_weight=0, relaxed_weight=0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.EmbeddedPostgres]:
    with embedded.start(tmp_path_factory.mktemp("evaluation") / "pg") as running:
        yield running


@pytest.fixture(scope="module")
def template(server: embedded.EmbeddedPostgres, suite: Suite) -> str:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE template_eval")
    conninfo = server.conninfo(dbname="template_eval")
    MemoryStore.admin(conninfo).migrate(EMBEDDER)
    with MemoryStore.connect(conninfo, embedder=EMBEDDER) as store:
        load_suite(suite, store)
        store.maintain()
    return "template_eval"


@pytest.fixture
def conninfo(server: embedded.EmbeddedPostgres, template: str) -> Iterator[str]:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE trial TEMPLATE template_eval")
        yield server.conninfo(dbname="trial")
        connection.execute("DROP DATABASE trial WITH (FORCE)")


@pytest.fixture
def store(conninfo: str) -> Iterator[MemoryStore]:
    with MemoryStore.connect(conninfo, embedder=EMBEDDER) as opened:
        yield opened


@pytest.fixture
def laboratory(conninfo: str) -> Laboratory:
    return Laboratory(StoreAdmin.connect(conninfo), EMBEDDER)


@pytest.fixture(scope="module")
def suite() -> Suite:
    subjects = ["gateway", "mailer", "billing", "search", "backup", "scheduler", "cache", "proxy"]
    faults = {"restart": "after midnight", "overload": "on Mondays", "leak": "of memory", "delay": "of replies"}
    documents = tuple(
        Document(f"{subject}-{fault}", f"The {subject} shows a {fault} {detail}, ticket ERR-{n}{m}71.", scope=scope)
        for scope in ("ana", "ben")
        for n, subject in enumerate(subjects[:4] if scope == "ana" else subjects[4:], start=1)
        for m, (fault, detail) in enumerate(faults.items(), start=1)
    )
    queries = (
        Query("q1", ("why does the gateway restart",), scope="ana"),
        Query("q2", ("ERR-2371",), scope="ana"),
        Query("q3", ("backup delay of replies",), scope="ben"),
        Query("q4", ("cache overload", "on Mondays"), scope="ben"),
    )
    relevant = {"q1": "gateway-restart", "q2": "mailer-leak", "q3": "backup-delay", "q4": "cache-overload"}
    return Suite("tickets", documents, queries, {q: {d: 1} for q, d in relevant.items()})


def test_a_suite_is_loaded_once_and_each_scope_by_itself(suite: Suite, store: MemoryStore) -> None:
    seen: list[int] = []
    assert load_suite(suite, store, progress=seen.append) == 0
    assert sum(seen) == len(suite.documents)
    scope = scope_of(suite, "ana")
    assert len(store.as_user(scope.org, scope.user).list()) == 16
    changed = Suite("tickets", (*suite.documents, Document("new", "A new one.", scope="ana")), (), {})
    assert load_suite(changed, store) == 33


def test_the_store_and_a_trial_give_the_same_rankings(suite: Suite, store: MemoryStore, laboratory: Laboratory) -> None:
    asked = ask_store(suite, store, config=laboratory.config())
    fused = trial_runs(suite, laboratory)[0]
    assert fused_run(suite, laboratory).rankings == fused.rankings
    assert {q.id: asked.ids(q.id) for q in suite.queries} == {q.id: fused.ids(q.id) for q in suite.queries}
    assert asked.latency_ms.keys() == {q.id for q in suite.queries}
    assert asked.evidence["q2"] == "strong"
    assert measure(suite, asked).mean["Success@1"] == 1.0
    assert find_leaks(suite, asked) == []


def test_legs_taken_out_of_a_trial_are_those_of_settings_that_switch_the_others_off(
    suite: Suite, laboratory: Laboratory
) -> None:
    runs = {run.system: run for run in trial_runs(suite, laboratory)}
    assert {"fused", "vector", "exact", "relaxed", "vector+relaxed"} <= runs.keys()
    alone = trial_runs(suite, laboratory, config_of({"exact_weight": 0, "relaxed_weight": 0, "alias_weight": 0}))[0]
    pair = trial_runs(suite, laboratory, config_of({"exact_weight": 0, "alias_weight": 0}))[0]
    for query in suite.queries:
        assert runs["vector"].ids(query.id)[:10] == alone.ids(query.id)
        assert runs["vector+relaxed"].ids(query.id) == pair.ids(query.id)


def test_a_trial_leaves_no_trace_even_when_it_breaks_off(suite: Suite, laboratory: Laboratory) -> None:
    before = laboratory.config()
    assert trial_runs(suite, laboratory, BAD)[0].ids("q1") == []
    assert laboratory.config() == before
    with pytest.raises(KeyboardInterrupt), laboratory.trial(BAD):
        raise KeyboardInterrupt
    assert laboratory.config() == before


def test_baselines_stand_in_the_same_report(suite: Suite, laboratory: Laboratory, store: MemoryStore) -> None:
    asked = ask_store(suite, store, config=laboratory.config())
    report = build_report(suite, [asked, *trial_runs(suite, laboratory)[1:], *baseline_runs(suite, laboratory)])
    systems = [row.system for row in report.rows]
    assert {"fused", "vector", "bm25", "exact vectors", "rrf bm25 + vectors", "convex, tuned here"} <= set(systems)
    assert report.row("handwritten rrf").means["Success@1"] == 1.0
    assert report.row("exact vectors").means == pytest.approx(report.row("vector").means, abs=0.3)
    assert report.code_version == code_version()


def test_the_statement_written_by_hand_keeps_to_scope_and_filter(suite: Suite, laboratory: Laboratory) -> None:
    found = handwritten_run(suite.filtered({"lore_kind": "document"}), laboratory)
    assert find_leaks(suite, found) == []
    assert found.ids("q2")[0] == "mailer-leak"
    nothing = handwritten_run(suite.filtered({"lore_kind": "task"}), laboratory)
    assert nothing.ids("q2") == []


def test_isolation_probes_find_no_leak(suite: Suite, store: MemoryStore, laboratory: Laboratory) -> None:
    probes = isolation_probes(suite, size=12)
    assert load_suite(probes, store) == 36
    asked = ask_store(probes, store, config=laboratory.config())
    assert find_leaks(probes, asked) == []
    assert measure(probes, asked).mean["Success@1"] == 1.0


def test_settings_that_are_no_worse_are_written_with_the_run_that_justifies_them(
    suite: Suite, laboratory: Laboratory, conninfo: str
) -> None:
    better = config_of({"relaxed_coverage": 0.15})
    outcome = accept(laboratory, [suite], better)
    assert outcome.verdict.is_accepted
    assert laboratory.config() == better
    with psycopg.connect(conninfo) as connection:
        row = connection.execute("SELECT accepted_run, accepted_at IS NOT NULL FROM lore.fusion_config").fetchone()
    assert row == (outcome.run, True)
    latest, *runs = history(laboratory.admin)
    assert (latest.event, latest.run, latest.suite) == ("accepted", outcome.run, "tickets")
    assert latest.code_version == code_version()
    assert latest.measures["tickets"]["R@10"] == [1.0, 1.0]
    assert [each.event for each in runs] == ["run", "run"]
    assert {each.data_hash for each in runs} == {suite.fingerprint}


def test_worse_settings_are_refused_and_recorded(suite: Suite, laboratory: Laboratory) -> None:
    before = laboratory.config()
    outcome = accept(laboratory, [suite], BAD)
    assert outcome.run is None
    assert "falls from 1.0000 to 0.0000" in outcome.verdict.reasons[0]
    assert laboratory.config() == before
    assert [each.event for each in history(laboratory.admin)] == ["run", "run"]


def test_undo_goes_back_one_acceptance_at_a_time(suite: Suite, laboratory: Laboratory) -> None:
    shipped = laboratory.config()
    first, second = config_of({"relaxed_coverage": 0.15}), config_of({"relaxed_coverage": 0.1})
    accept(laboratory, [suite], first)
    accept(laboratory, [suite], second)
    assert laboratory.config() == second
    assert undo(laboratory.admin) == first == laboratory.config()
    assert undo(laboratory.admin) == shipped == laboratory.config()
    with pytest.raises(InvalidInput, match="nothing was accepted"):
        undo(laboratory.admin)
    assert [each.event for each in history(laboratory.admin) if each.event != "run"] == ["undone"] * 2 + [
        "accepted"
    ] * 2


def test_a_crash_at_any_step_leaves_the_settings_as_they_were_and_accepting_again_works(
    suite: Suite, laboratory: Laboratory
) -> None:
    shipped, new = laboratory.config(), config_of({"relaxed_coverage": 0.15})
    for step in ("the settings in use", "the new settings", "judging", "writing"):

        def crash(told: str, at: str = step) -> None:
            if told.endswith(at):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            accept(laboratory, [suite], new, notice=crash)
        assert laboratory.config() == shipped
    runs = [each for each in history(laboratory.admin) if each.event == "run"]
    assert accept(laboratory, [suite], new).run is not None
    assert laboratory.config() == new
    # The runs that were recorded before the crash served again.
    assert [each for each in history(laboratory.admin) if each.event == "run"] == runs


def test_settings_changed_by_others_meanwhile_are_not_overwritten(suite: Suite, laboratory: Laboratory) -> None:
    def interfere(told: str) -> None:
        if told == "judging":
            with laboratory.admin.service() as cursor:
                cursor.execute("INSERT INTO fusion_config (rrf_k) VALUES (20)")

    with pytest.raises(InvalidInput, match="have changed"):
        accept(laboratory, [suite], config_of({"relaxed_coverage": 0.15}), notice=interfere)
    assert laboratory.config() == config_of({"rrf_k": 20})


def test_a_recorded_run_is_made_anew_when_code_data_or_settings_differ(suite: Suite, laboratory: Laboratory) -> None:
    shipped = laboratory.config()
    first = recorded_run(suite, laboratory, shipped)
    assert recorded_run(suite, laboratory, shipped) == first
    assert recorded_run(suite, laboratory, shipped, k=5).created_at != first.created_at
    assert recorded_run(suite, laboratory, BAD).created_at != first.created_at


def test_a_user_s_login_can_neither_try_nor_accept_settings(
    suite: Suite, laboratory: Laboratory, conninfo: str, server: embedded.EmbeddedPostgres
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'eval_app'").fetchone() is None:
            connection.execute("CREATE ROLE eval_app LOGIN IN ROLE lore_user")
    as_user = Laboratory(StoreAdmin.connect(server.conninfo(dbname="trial", user="eval_app")), EMBEDDER)
    for call in (
        lambda: accept(as_user, [suite], BAD),
        lambda: undo(as_user.admin),
        lambda: trial_runs(suite, as_user),
    ):
        with pytest.raises(PermissionDenied):
            call()
    assert laboratory.config() == FusionConfig()


def test_knobs_that_do_not_exist_or_are_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'rrf'"):
        config_of({"rrf": 60})
    with pytest.raises(InvalidInput, match="'rrf_k' = 0"):
        config_of({"rrf_k": 0})


def test_evidence_is_sampled_from_answers_and_strangers_and_recorded_with_the_space(
    suite: Suite, laboratory: Laboratory, conninfo: str
) -> None:
    strangers = Suite("other", (), tuple(Query(f"x{n}", (f"unheard of matter {n}",)) for n in range(30)), {})
    samples = evidence_samples(suite, laboratory, [suite, strangers])
    assert sum(sample.is_answer for sample in samples) == 4
    assert sum(not sample.is_answer for sample in samples) == 30
    fitted = fit_evidence(samples * 5)
    recorded = apply_evidence(laboratory, fitted)
    assert recorded["similarity_weight"] == fitted.similarity_weight
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT evidence FROM lore.embedding_space").fetchone() == (recorded,)
    with MemoryStore.connect(conninfo, embedder=EMBEDDER) as reopened:
        assert reopened.space.evidence.bias == fitted.bias
