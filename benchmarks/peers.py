"""How this package compares with its peers: time, recall and missing rows on the same rows, vectors, scope and k.

    make bench-peers                                       # 100,000 memories, 1024 dimensions, built-in Postgres
    python benchmarks/peers.py --database "host=… dbname=lore_bench" --memories 20000
    python benchmarks/peers.py --database … --filled       # everything is there from an earlier run

Needs an environment of its own (`benchmarks/requirements-peers.txt`), since the peers pin other versions of pgvector.
Peers live in databases `peers_…` beside the given one. All systems ask the same questions in turn, block by block: each
block once to warm up, then once timed. Wire to wire, scope and commit included; embedding excluded for all.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpora import add_world, world_of
from figures import (
    STRATA,
    Cell,
    add_output,
    by_stratum,
    database_of,
    machine,
    markdown,
    plot_bars,
    positive,
    publish,
    run_command,
)
from generated import Question, World, generate, questions
from peer_rows import create_database, database_beside, drop_database, export_rows, settle
from search import fill as fill_store
from systems import Handwritten, K, Lore, LoreExact, System, Truth


@dataclass
class Taken:
    """What was seen of one system: milliseconds by size of organisation, and what its answers were like."""

    times: list[tuple[int, float]] = field(default_factory=list)
    recalls: list[tuple[int, float]] = field(default_factory=list)
    overlaps: list[tuple[int, float]] = field(default_factory=list)
    is_short: list[bool] = field(default_factory=list)
    distinct: list[float] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)


def peers() -> dict[str, Callable[[str, int], None]]:
    """What fills each peer's database; imported here, so that --help needs no environment of theirs."""
    from peer_langchain import LangChain
    from peer_llamaindex import LlamaIndex

    return {
        "langchain": lambda conninfo, dimensions: LangChain.fill(conninfo, dimensions, tuned=False),
        "langchain_tuned": lambda conninfo, dimensions: LangChain.fill(conninfo, dimensions, tuned=True),
        "llamaindex": lambda conninfo, dimensions: LlamaIndex.fill(conninfo, dimensions, tuned=False),
        "llamaindex_tuned": lambda conninfo, dimensions: LlamaIndex.fill(conninfo, dimensions, tuned=True),
        "handwritten": Handwritten.fill,
    }


def fill_peers(given: argparse.Namespace) -> None:
    """One database for each peer, filled from the store's own windows and vectors."""
    base = create_database(given.database, given.prefix + "base")
    print(f"{export_rows(given.database, base):,} windows for every peer", flush=True)
    for name, fill in peers().items():
        began = time.perf_counter()
        made = create_database(given.database, given.prefix + name, template=given.prefix + "base")
        fill(made, given.dimensions)
        settle(made)
        print(f"{name}: filled and indexed in {time.perf_counter() - began:.0f} s", flush=True)
    drop_database(given.database, given.prefix + "base")


def opened(given: argparse.Namespace, loop: asyncio.AbstractEventLoop) -> list[System]:
    """All systems, connected, in the order of the tables."""
    from peer_langchain import LangChain
    from peer_llamaindex import LlamaIndex

    def place(name: str) -> str:
        return database_beside(given.database, given.prefix + name)

    documented = LangChain(place("langchain"), tuned=False)
    documented.open()
    tuned = LangChain(place("langchain_tuned"), tuned=True)
    loop.run_until_complete(tuned.aopen())
    return [
        Lore(given.database, given.dimensions),
        documented,
        tuned,
        LlamaIndex(place("llamaindex"), given.dimensions, tuned=False),
        LlamaIndex(place("llamaindex_tuned"), given.dimensions, tuned=True),
        Handwritten(place("handwritten"), any_word=False),
        Handwritten(place("handwritten"), any_word=True),
    ]


def answer(loop: asyncio.AbstractEventLoop, system: System, made: Any) -> Any:
    """What a call returned, awaited if it has to be."""
    return loop.run_until_complete(made) if system.is_async else made


def overlap(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Share of what was wanted that was found; 1 where nothing was."""
    return len(set(found) & set(wanted)) / len(set(wanted)) if wanted else 1.0


def look(
    given: argparse.Namespace, systems: list[System], asked: list[Question], taken: dict[str, Taken], loop: Any
) -> None:
    """Every system's answers to all questions, against exact search."""
    truth = Truth(given.database)
    in_full: dict[str, Any] = {"lore-retriever": LoreExact(given.database)}
    for any_word in (False, True):
        exact = Handwritten(
            database_beside(given.database, given.prefix + "handwritten"), any_word=any_word, exact=True
        )
        in_full[exact.name] = exact
    for question in asked:
        windows, memories = truth.nearest(question)
        visible = truth.visible(question)
        for system in systems:
            rows = answer(loop, system, system.search(question))
            nearest = answer(loop, system, system.nearest(question))
            seen = taken[system.name]
            wanted = memories if isinstance(system, Lore) else windows
            seen.recalls.append((question.memories_in_org, overlap(nearest, wanted)))
            seen.is_short.append(len(rows) < min(K, visible))
            seen.distinct.append(float(len(set(rows))))
            if question.source:
                seen.found.append(question.source in rows)
            if system.name in in_full:
                full = in_full[system.name].search(question)
                seen.overlaps.append((question.memories_in_org, overlap(rows, full)))


def time_block(system: System, block: list[Question], taken: Taken, loop: asyncio.AbstractEventLoop) -> None:
    """One block of questions, warmed up and then timed."""

    async def later() -> None:
        for is_timed in (False, True):
            for question in block:
                began = time.perf_counter()
                await system.search(question)
                if is_timed:
                    taken.times.append((question.memories_in_org, (time.perf_counter() - began) * 1000))

    if system.is_async:
        waiting: Coroutine[Any, Any, None] = later()
        loop.run_until_complete(waiting)
        return
    for is_timed in (False, True):
        for question in block:
            began = time.perf_counter()
            system.search(question)
            if is_timed:
                taken.times.append((question.memories_in_org, (time.perf_counter() - began) * 1000))


def measure(
    given: argparse.Namespace, systems: list[System], asked: list[Question], taken: dict[str, Taken], loop: Any
) -> None:
    """All blocks, the systems in turn, another one first each time."""
    turn = 0
    for _ in range(given.rounds):
        for start in range(0, len(asked), given.block):
            for place in range(len(systems)):
                system = systems[(place + turn) % len(systems)]
                time_block(system, asked[start : start + given.block], taken[system.name], loop)
            turn += 1


def mean(values: Sequence[float | bool]) -> float:
    """Their mean, NaN for none."""
    return sum(values) / len(values) if values else float("nan")


def report(systems: list[System], taken: dict[str, Taken]) -> tuple[list[str], dict[str, Any]]:
    """The tables, and all figures."""
    figures: dict[str, Any] = {}
    times: list[list[Cell]] = []
    quality: list[list[Cell]] = []
    ours = by_stratum(taken["lore-retriever"].times)
    for system in systems:
        seen = taken[system.name]
        strata = by_stratum(seen.times)
        recalls = {
            name: mean([value for size, value in seen.recalls if least <= size < most]) for name, least, most in STRATA
        }
        lowest = min(value for value in recalls.values() if value == value)
        figures[system.name] = {
            "settings": system.settings,
            "milliseconds": strata,
            "ratio_to_ours": {
                name: {share: values[share] / ours[name][share] for share in ("p50", "p95", "mean")}
                for name, values in strata.items()
            },
            "vector_recall_at_10": {name: value for name, value in recalls.items() if value == value},
            "overlap_with_exact": mean([value for _, value in seen.overlaps]) if seen.overlaps else None,
            "fewer_than_k_rows": mean(seen.is_short),
            "distinct_memories": mean(seen.distinct),
            "finds_its_source": mean(seen.found),
        }
        cells: list[Cell] = [system.name]
        for name, _, _ in STRATA:
            if name in strata:
                cells.append(f"{strata[name]['p50']:.1f} / {strata[name]['p95']:.1f}")
            else:
                cells.append(None)
        every = figures[system.name]["ratio_to_ours"]["all"]
        times.append(
            [*cells, strata["all"]["mean"], " / ".join(f"{every[share]:.1f}" for share in ("p50", "p95", "mean"))]
        )
        overlaps = figures[system.name]["overlap_with_exact"]
        quality.append(
            [system.name, recalls["all"], lowest, overlaps, mean(seen.is_short), mean(seen.distinct), mean(seen.found)]
        )
    head = ["p50 / p95, ms", *(name for name, _, _ in STRATA), "mean of all", "times ours: p50 / p95 / mean"]
    tables = [
        markdown(head, times, digits=1),
        markdown(
            [
                "answers",
                "vector R@10",
                "lowest of any size",
                "overlap with exact",
                "fewer than k rows",
                "distinct memories",
                "finds its source",
            ],
            quality,
            digits=3,
        ),
        "\n".join(f"- **{system.name}**: " + "; ".join(system.settings.values()) for system in systems),
    ]
    return tables, figures


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_world(parser, memories=100_000, organisations=200, dimensions=1024)
    parser.add_argument("--questions", type=positive, default=300)
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--block", type=positive, default=50, help="questions that one system answers in a row")
    parser.add_argument("--database", help="an administrator's connection string to a database for the store")
    parser.add_argument("--prefix", default="peers_", help="what the peers' databases begin with")
    parser.add_argument("--filled", action="store_true", help="store and peers were filled by an earlier run")
    parser.add_argument("--store-filled", action="store_true", help="only the store was")
    parser.add_argument(
        "--only", action="append", help="time these systems only, beside ours (part of a name; repeatable)"
    )
    add_output(parser, plot=True)
    return parser.parse_args()


def run(given: argparse.Namespace, world: World) -> None:
    """Fill what is to be filled, look at the answers, take the times, publish."""
    memories = generate(world)
    if not (given.filled or given.store_filled):
        fill_store(given.database, world, memories)
    if not given.filled:
        fill_peers(given)
    asked = questions(world, memories, given.questions)
    loop = asyncio.new_event_loop()
    systems = opened(given, loop)
    if given.only:
        systems = [s for s in systems if isinstance(s, Lore) or any(part in s.name for part in given.only)]
    taken: dict[str, Taken] = defaultdict(Taken)
    look(given, systems, asked, taken, loop)
    measure(given, systems, asked, taken, loop)
    tables, figures = report(systems, taken)
    publish(given, tables, {"machine": machine(given.database), "systems": figures})
    if given.plot is not None:
        groups = [name for name, _, _ in STRATA if name in figures["lore-retriever"]["milliseconds"]]
        bars = {name: [each["milliseconds"][group]["p50"] for group in groups] for name, each in figures.items()}
        title = (
            f"Median search, {given.memories:,} memories of {given.dimensions:,} dimensions, by size of organisation"
        )
        plot_bars(given.plot, groups, bars, title=title)
    for system in systems:
        answer(loop, system, system.close())
    loop.close()


def main() -> None:
    """Run on the given database, or on the built-in Postgres."""
    given = parsed()
    world = world_of(given)
    with database_of(given.database) as conninfo:
        given.database = conninfo
        run(given, world)


if __name__ == "__main__":
    run_command(main)
