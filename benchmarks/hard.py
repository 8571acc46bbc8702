"""What is hard: questions of 2,000 words, filters that keep one in a thousand, a tenant that owns half of everything, a slow network.

    python benchmarks/hard.py                                           # 2 x 5,000 memories, 384 dimensions, built-in Postgres
    python benchmarks/hard.py --database "host=…" --memories 50000      # an empty database

Every case is asked in turn, block by block, each block warmed up. Round trips are counted by a relay that can hold
everything back for a while.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
from delayed import relayed
from figures import Cell, add_output, database_of, machine, markdown, percentile, positive, publish, run_command
from generated import Generated, Question, Shape, World, generate, questions
from growth import TENANT, add_tenant, prepare
from search import fill as fill_store
from systems import K, Lore

MARK = """
UPDATE lore.memories SET metadata = jsonb_build_object('team', 't' || key % 1000);
VACUUM (FULL, ANALYZE) lore.memories"""


def fill(conninfo: str, world: World, memories: list[Generated]) -> int:
    """A store of 20 organisations and one that owns as much as all of them; how many memories that one has."""
    fill_store(conninfo, world, memories)
    prepare(conninfo)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in MARK.split(";"):
            connection.execute(statement)  # type: ignore[arg-type]
    return add_tenant(conninfo, copies=1)


def long_text(memories: list[Generated], number: int) -> str:
    """2,000 words out of the memories."""
    words: list[str] = []
    while len(words) < 2000:
        words += memories[number % len(memories)].text.split()
        number += 1
    return " ".join(words[:2000])


def cases(system: Lore, asked: list[Question], memories: list[Generated]) -> dict[str, Callable[[int], object]]:
    """Each case by its name: asks the question of that number."""
    in_tenant = [replace(question, org=TENANT) for question in asked]
    pasted = [long_text(memories, 37 * n) for n in range(len(asked))]

    def ask(question: Question, **given: Any) -> object:
        system.embedder.next = question.vector.tolist()
        text = given.pop("text", question.text)
        return system.store.as_user(question.org, question.user).recall(text, limit=K, **given)

    made: dict[str, Callable[[int], object]] = {}
    for who, them in (("20 organisations", asked), ("the tenant that owns half", in_tenant)):
        made[f"{who}: plain"] = lambda n, them=them: ask(them[n])  # type: ignore[misc]
        made[f"{who}: 2,000 words"] = lambda n, them=them: ask(them[n], text=pasted[n])  # type: ignore[misc]
        made[f"{who}: a filter that keeps 0.1 %"] = lambda n, them=them: ask(them[n], filter={"team": f"t{n}"})  # type: ignore[misc]
        made[f"{who}: a filter that keeps half"] = lambda n, them=them: ask(  # type: ignore[misc]
            them[n], filter={"team": {"$lt": "t54"}}
        )
    return made


def in_turn(made: dict[str, Callable[[int], object]], count: int, block: int) -> dict[str, list[float]]:
    """Milliseconds of each case, block by block, each block warmed up."""
    taken: dict[str, list[float]] = {name: [] for name in made}
    for start in range(0, count, block):
        for name, ask in made.items():
            for is_timed in (False, True):
                for number in range(start, min(count, start + block)):
                    began = time.perf_counter()
                    ask(number)
                    if is_timed:
                        taken[name].append((time.perf_counter() - began) * 1000)
    return taken


def through_delays(given: argparse.Namespace, asked: list[Question]) -> list[dict[str, float]]:
    """p50 of a search behind a network of 0, 1 and 10 ms, and its round trips."""
    made = []
    with relayed(given.database) as (relay, conninfo):
        for delay in given.delays:
            relay.delay_s = 0
            system = Lore(conninfo, given.dimensions)
            for question in asked:
                system.search(question)
            relay.delay_s, relay.turns = delay / 1000, 0
            times = []
            for question in asked:
                began = time.perf_counter()
                system.search(question)
                times.append((time.perf_counter() - began) * 1000)
            made.append({"delay_ms": delay, "p50": percentile(times, 0.5), "round_trips": relay.turns / len(asked)})
            system.close()
    return made


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=positive, default=5_000, help="of 20 organisations; one more gets as many")
    parser.add_argument("--dimensions", type=positive, default=384)
    parser.add_argument("--questions", type=positive, default=60)
    parser.add_argument("--block", type=positive, default=30)
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 1, 10], help="milliseconds of a round trip")
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Fill, ask, publish."""
    given = parsed()
    with database_of(given.database) as conninfo:
        given.database = conninfo
        world = World(Shape(given.memories, 20, given.dimensions))
        memories = generate(world)
        if not given.filled:
            print(f"a tenant of {fill(conninfo, world, memories):,} memories", flush=True)
        asked = questions(world, memories, given.questions)
        system = Lore(conninfo, given.dimensions)
        taken = in_turn(cases(system, asked, memories), len(asked), given.block)
        system.close()
        figures = {name: {"p50": percentile(v, 0.5), "p95": percentile(v, 0.95)} for name, v in taken.items()}
        rows: list[list[Cell]] = [[name, each["p50"], each["p95"]] for name, each in figures.items()]
        slow = through_delays(given, asked)
        network: list[list[Cell]] = [[f"{e['delay_ms']:g} ms", e["p50"], e["round_trips"]] for e in slow]
        tables = [
            markdown(["case", "p50 ms", "p95 ms"], rows),
            markdown(["a round trip of", "p50 ms", "round trips a search"], network),
        ]
        publish(given, tables, {"machine": machine(conninfo), "cases": figures, "network": slow})


if __name__ == "__main__":
    run_command(main)
