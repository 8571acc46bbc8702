"""`lore-retriever eval`: run, compare, sweep, accept, undo, history, calibrate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lore_retriever.config import FusionConfig
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation import decisions
from lore_retriever.evaluation.bench import Bench, named_embedder, open_bench, open_keeper
from lore_retriever.evaluation.calibration import fit_evidence
from lore_retriever.evaluation.laboratory import config_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.measures import measure, query_differences
from lore_retriever.evaluation.probe_sets import make_probes
from lore_retriever.evaluation.report import Report, build_report, differences_table, report_table
from lore_retriever.evaluation.runner import (
    ask_store,
    baseline_runs,
    code_version,
    evidence_samples,
    fused_run,
    trial_runs,
)
from lore_retriever.evaluation.runs import Run, load_runs, save_runs, to_trec
from lore_retriever.evaluation.specs import open_suites
from lore_retriever.evaluation.suites import Suite
from lore_retriever.evaluation.summary import summary_markdown, summary_table, verdict
from lore_retriever.evaluation.sweep import Journal, Trial, choose, grid, leave_one_out, one_value, parse_knobs
from lore_retriever.evaluation.tables import described, samples_table, trials_table, verdict_table
from lore_retriever.types import LEGS

__all__ = ["eval_app"]

eval_app = typer.Typer(
    help="Measure retrieval on judged queries, and change settings on evidence.", no_args_is_help=True
)

Suites = Annotated[
    list[Path],
    typer.Argument(help="Suites: folders (plain or BEIR), LoCoMo or LongMemEval files, or a TOML list of them."),
]
Only = Annotated[list[str] | None, typer.Option("--only", help="Run this suite only; repeat for more.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", envvar="LORE_DATABASE", help="Connection string; without one, the built-in Postgres."
    ),
]
AdminDatabase = Annotated[
    str | None, typer.Option("--admin-database", envvar="LORE_ADMIN_DATABASE", help="The keeper's connection string.")
]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Folder of the built-in Postgres; one for evaluation by default.")
]
Schema = Annotated[str, typer.Option("--schema", help="Where the store lives.")]
Model = Annotated[
    str,
    typer.Option(
        "--model", help="offline, e5, minilm, hash, or a SentenceTransformers model: its folder, or organisation/name."
    ),
]
Cache = Annotated[Path | None, typer.Option("--cache", help="File that keeps vectors between runs.")]
K = Annotated[int, typer.Option("--k", min=1, max=1000, help="Hits asked for.")]
Knobs = Annotated[list[str] | None, typer.Option("--knob", help="A knob and its value, as in rrf_k=60; repeat.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


_FILE_COLUMNS = 170


def _wide_console() -> Console:
    """A console; one that writes to a file is as wide as the widest table, which 80 columns would cut short."""
    made = Console()
    return made if made.is_terminal else Console(width=max(made.width, _FILE_COLUMNS))


console = _wide_console()


@eval_app.command()
def run(
    suites: Suites,
    only: Only = None,
    database: Database = None,
    admin_database: AdminDatabase = None,
    folder: Folder = None,
    schema: Schema = "lore",
    model: Model = "offline",
    cache: Cache = None,
    k: K = 10,
    probes: Annotated[list[str] | None, typer.Option("--probes", help="Probes to generate too; `all` for all.")] = None,
    baselines: Annotated[bool, typer.Option(help="BM25, exact vectors and their fusions beside it.")] = True,
    others: Annotated[list[Path] | None, typer.Option("--with", help="Saved runs of other systems.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Keep all rankings in this file.")] = None,
    trec: Annotated[Path | None, typer.Option("--trec", help="Folder for TREC run files.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="File for the table of all suites, as Markdown.")
    ] = None,
    keep_record: Annotated[bool, typer.Option("--record", help="Keep the fused run in eval_runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure every leg, every pair and the fusion on the suites, with the settings in use."""
    foreign = [each for path in others or [] for each in load_runs(path)]
    kept: list[Run] = []
    reports: list[Report] = []
    opened = open_suites(suites, only=only or ())
    asked = [each for suite in opened for each in (suite, *make_probes(suite, probes))]
    with _opened(database, admin_database, folder, schema, model, cache) as bench:
        for suite in asked:
            runs = _run_suite(suite, bench, k=k, baselines=baselines)
            if keep_record:
                decisions.record_run(suite, bench.laboratory, runs[0], bench.laboratory.config(), k=k)
            runs += [each for each in foreign if each.suite == suite.name]
            kept += runs
            if suite.judged:
                reports.append(build_report(suite, runs, legs=LEGS))
                if not as_json:
                    console.print(report_table(reports[-1]))
    _save(kept, save, trec)
    if markdown is not None:
        markdown.write_text(summary_markdown(reports), encoding="utf-8")
    if as_json:
        print(json.dumps([report.as_json() for report in reports], ensure_ascii=False))
    elif reports:
        _print_summary(reports)
    if any(report.leaks for report in reports):
        raise typer.Exit(1)


@eval_app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Saved runs.")],
    second: Annotated[Path, typer.Argument(help="Saved runs to compare with them.")],
    suites: Annotated[list[Path], typer.Option("--suites", help="The suites that they ran on.")],
    only: Only = None,
    system: Annotated[str, typer.Option(help="Which system of each file.")] = "fused",
    name: Annotated[str, typer.Option("--measure", help="Measure to look into.")] = "nDCG@10",
    show: Annotated[int, typer.Option(min=0, help="Queries to show with both rankings.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Two saved runs: means with intervals, and the queries on which they differ most, side by side."""
    before, after = _by_suite(first, system), _by_suite(second, system)
    found: list[dict[str, Any]] = []
    for suite in open_suites(suites, only=only or ()):
        if suite.name not in before or suite.name not in after:
            continue
        pair = [
            each.model_copy(update={"system": path.stem})
            for each, path in ((before[suite.name], first), (after[suite.name], second))
        ]
        if first.stem == second.stem:
            pair = [each.model_copy(update={"system": which}) for each, which in zip(pair, "AB", strict=True)]
        report = build_report(suite, pair, reference=pair[1].system)
        differences = query_differences(suite, pair[0], pair[1], name=name)
        worse = [each for each in differences if each.gain < 0]
        found.append({**report.as_json(), "better": len(differences) - len(worse), "worse": len(worse)})
        if not as_json:
            console.print(report_table(report))
            console.print(f"{name}: better on {len(differences) - len(worse)} queries, worse on {len(worse)}")
            console.print(differences_table(differences[:show], (pair[0].system, pair[1].system)))
    if not found:
        raise InvalidInput(f"no suite was run as {system!r} in both {first} and {second}.")
    if as_json:
        print(json.dumps(found, ensure_ascii=False))


@eval_app.command()
def sweep(
    suites: Suites,
    knob: Annotated[list[str], typer.Option("--knob", help="A knob and its values, as in bm25_b=0.4,0.75; repeat.")],
    journal: Annotated[
        Path, typer.Option("--journal", help="File of finished trials; a second sweep goes on from it.")
    ],
    only: Only = None,
    database: Database = None,
    admin_database: AdminDatabase = None,
    folder: Folder = None,
    schema: Schema = "lore",
    model: Model = "offline",
    cache: Cache = None,
    k: K = 10,
    as_json: AsJson = False,
) -> None:
    """Try every combination of the knobs' values, jointly, without changing the settings in use."""
    points = grid(parse_knobs(knob))
    kept = Journal(journal)
    opened = open_suites(suites, only=only or ())
    with _opened(database, admin_database, folder, schema, model, cache) as bench:
        _load(opened, bench)
        with _progress("trials", len(points) * len(opened)) as advance:
            trials = [_try(suite, bench, kept, point, k, advance) for point in points for suite in opened]
    chosen = choose(trials)
    without = leave_one_out(trials)
    if as_json:
        rows = [trial.model_dump(exclude={"per_query"}) for trial in trials]
        print(json.dumps({"trials": rows, "chosen": chosen, "without": without}))
        return
    console.print(trials_table(trials))
    console.print(f"best mean of R@10 and nDCG@10 over all suites: {chosen}")
    for suite_name, choice in without.items():
        console.print(f"  without {suite_name}: {choice}")


@eval_app.command()
def accept(
    suites: Suites,
    knob: Knobs = None,
    only: Only = None,
    tolerance: Annotated[float, typer.Option(min=0, help="How far a mean may fall.")] = 0.0,
    database: Database = None,
    admin_database: AdminDatabase = None,
    folder: Folder = None,
    schema: Schema = "lore",
    model: Model = "offline",
    cache: Cache = None,
    k: K = 10,
) -> None:
    """Put settings in use, if a recorded run with them is not worse on any of the suites."""
    config = config_of(one_value(parse_knobs(knob or [])))
    opened = open_suites(suites, only=only or ())
    with _opened(database, admin_database, folder, schema, model, cache) as bench:
        _load(opened, bench)
        outcome = decisions.accept(
            bench.laboratory, opened, config, tolerance=tolerance, k=k, notice=lambda told: console.log(told)
        )
    console.print(verdict_table(outcome.verdict))
    for reason in outcome.verdict.reasons:
        console.print(f"refused: {reason}")
    if outcome.run is None:
        raise typer.Exit(1)
    console.print(f"accepted as run {outcome.run}; `eval undo` takes it back")


@eval_app.command()
def calibrate(
    suites: Suites,
    apply: Annotated[bool, typer.Option("--apply", help="Record it with the embedding space.")] = False,
    only: Only = None,
    database: Database = None,
    admin_database: AdminDatabase = None,
    folder: Folder = None,
    schema: Schema = "lore",
    model: Model = "offline",
    cache: Cache = None,
) -> None:
    """Fit the strength of evidence: answers against what questions of the other suites find."""
    opened = open_suites(suites, only=only or ())
    with _opened(database, admin_database, folder, schema, model, cache) as bench:
        _load(opened, bench)
        samples = [each for suite in opened for each in evidence_samples(suite, bench.laboratory, opened)]
        fitted = fit_evidence(samples)
        if apply:
            decisions.apply_evidence(bench.laboratory, fitted)
    console.print(samples_table(samples, fitted))
    console.print({**asdict(fitted), "recorded": apply})


@eval_app.command()
def undo(
    database: Database = None, admin_database: AdminDatabase = None, folder: Folder = None, schema: Schema = "lore"
) -> None:
    """Put back the settings that the latest acceptance replaced."""
    with open_keeper(database, admin_database, folder=folder, schema=schema) as (admin, _):
        config = decisions.undo(admin)
    console.print(f"in use again: {described(config)}")


@eval_app.command()
def history(
    database: Database = None,
    admin_database: AdminDatabase = None,
    folder: Folder = None,
    schema: Schema = "lore",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """Recorded runs, acceptances and undoings, the latest first."""
    with open_keeper(database, admin_database, folder=folder, schema=schema) as (admin, _):
        entries = decisions.history(admin, limit=limit)
    if as_json:
        print(json.dumps([vars(entry) for entry in entries], default=str))
        return
    table = Table("run", "when", "what", "suite", "settings", "code", "data")
    for entry in entries:
        config = FusionConfig(**{n: v for n, v in entry.config.items() if n in FusionConfig.model_fields})
        when = f"{entry.created_at:%Y-%m-%d %H:%M}"
        cells = (entry.suite, described(config), entry.code_version, entry.data_hash[:12])
        table.add_row(str(entry.run), when, entry.event, *cells)
    console.print(table)


@contextmanager
def _opened(
    database: str | None,
    admin_database: str | None,
    folder: Path | None,
    schema: str,
    model: str,
    cache: Path | None,
) -> Iterator[Bench]:
    keeper = open_keeper(database, admin_database, folder=folder, schema=schema)
    with keeper as (admin, conninfo), open_bench(admin, conninfo, named_embedder(model, cache)) as bench:
        yield bench


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n: bar.advance(task, n)


def _load(suites: Sequence[Suite], bench: Bench) -> None:
    stored = 0
    for suite in suites:
        with _progress(f"{suite.name}: loading", len(suite.documents)) as advance:
            stored += load_suite(suite, bench.store, progress=advance)
    if stored:
        bench.store.maintain()


def _run_suite(suite: Suite, bench: Bench, *, k: int, baselines: bool) -> list[Run]:
    _load([suite], bench)
    with _progress(f"{suite.name}: asking", len(suite.queries)) as advance:
        asked = ask_store(suite, bench.store, config=bench.laboratory.config(), k=k, progress=advance)
    runs = [asked, *trial_runs(suite, bench.laboratory, k=k)[1:]]
    return [*runs, *baseline_runs(suite, bench.laboratory)] if baselines else runs


def _try(
    suite: Suite, bench: Bench, kept: Journal, point: dict[str, float], k: int, advance: Callable[[int], None]
) -> Trial:
    found = kept.find(point, suite.name, suite.fingerprint, code_version())
    if found is None:
        measured = measure(suite, fused_run(suite, bench.laboratory, config_of(point), k=k))
        found = Trial(
            point=point,
            suite=suite.name,
            data_hash=suite.fingerprint,
            code_version=code_version(),
            means=measured.mean,
            per_query=measured.per_query,
        )
        kept.add(found)
    advance(1)
    return found


def _save(runs: Sequence[Run], save: Path | None, trec: Path | None) -> None:
    if save is not None:
        save_runs(runs, save)
    if trec is not None:
        trec.mkdir(parents=True, exist_ok=True)
        for each in runs:
            name = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{each.suite}-{each.system}")
            (trec / f"{name}.run").write_text(to_trec(each), encoding="utf-8")


def _print_summary(reports: Sequence[Report]) -> None:
    console.print(summary_table(reports))
    for sentence in verdict(reports):
        console.print(sentence)


def _by_suite(path: Path, system: str) -> dict[str, Run]:
    return {each.suite: each for each in load_runs(path) if each.system == system}
