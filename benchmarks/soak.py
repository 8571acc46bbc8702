"""Mixed load from several clients while the server is killed at random: is anything lost, leaked, left over or stuck?

    python benchmarks/soak.py --seconds 60 --kills 3               # a short look
    python benchmarks/soak.py --operations 100000 --kills 20       # the published run (docs/explanation/faults.md)

Starts a built-in Postgres of its own in a temporary folder. Half of the clients share a `MemoryStore`, half an
`AsyncMemoryStore`, each with fewer connections than clients; two organisations; an embedder that is slow, fails or returns
nonsense now and then. A kill is `kill -9` of the whole server, or of one of its processes. Afterwards every memory is
compared with what its writer knows, every table with the memories, and both pools are looked at. Exit status 1 if
anything is amiss.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from soak_checks import check_pool, check_server, check_tables, check_users
from soak_client import Client
from soak_model import Ledger

from lore_retriever import AsyncMemoryStore, MemoryStore, embedded
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder

ORGS = ("acme", "globex")
MOST_VIOLATIONS = 20
APPLICATION = "soak_application"


class Moody(HashEmbedder):
    """Slow, failing or wrong for one text in a hundred each."""

    def __init__(self, seed: int) -> None:
        super().__init__(32)
        self.is_well = False
        self._rng = random.Random(seed)

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """As `HashEmbedder`, on a good day."""
        mood = 1.0 if self.is_well else self._rng.random()
        if mood < 0.01:
            raise RuntimeError("the model is out of memory")
        if mood < 0.02:
            return super().embed_texts(texts)[1:]
        if mood < 0.03:
            return [[float("nan")] * 32 for _ in texts]
        if mood < 0.04:
            time.sleep(0.05)
        return super().embed_texts(texts)

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """As `embed_texts`."""
        return self.embed_texts(texts)


class Awaited:
    """An asynchronous view for a thread: every call runs on the loop that its store lives on."""

    def __init__(self, view: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._view, self._loop = view, loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._view, name)
        return lambda *args, **kwargs: _on(self._loop, method(*args, **kwargs))


def _on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


class Retries(logging.Handler):
    """Counts what the library logs of transactions that it ran again."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.INFO)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        if "tried again" in record.getMessage():
            self._ledger.count("retries")


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class Killer(threading.Thread):
    """Kills the server whenever the share of work done passes the next of some random marks."""

    def __init__(self, server: Any, conninfo: str, kills: int, done: Any, ledger: Ledger, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._conninfo, self._done, self._ledger = server, conninfo, done, ledger
        self._rng = random.Random(seed)
        self._marks = sorted(self._rng.uniform(0.02, 0.97) for _ in range(kills))

    def run(self) -> None:
        """Until the last mark is passed."""
        for number, mark in enumerate(self._marks):
            while self._done() < mark:
                time.sleep(0.02)
            try:
                self._kill(whole=number % 3 < 2)
            except Exception as error:
                self._ledger.violate(f"the server did not come back: {type(error).__name__}: {error}")
                return

    def _kill(self, *, whole: bool) -> None:
        if whole:
            os.kill(int((self._server.path / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            time.sleep(self._rng.uniform(0, 0.3))
            self._server.revive()
            self._ledger.count("kills_of_the_server")
            return
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'lore-retriever'"
            pids = [row[0] for row in connection.execute(query).fetchall()]
        os.kill(self._rng.choice(pids), signal.SIGKILL)
        self._ledger.count("kills_of_a_backend")


def load(options: argparse.Namespace, clients: Sequence[Client], ledger: Ledger, server: Any, conninfo: str) -> float:
    """Let the clients work, and the killer kill; how many seconds it took."""
    began = time.monotonic()

    def done() -> float:
        if options.operations:
            return ledger.operations / float(options.operations)
        return (time.monotonic() - began) / float(options.seconds)

    def work(client: Client) -> None:
        while done() < 1 and len(ledger.violations) < MOST_VIOLATIONS:
            client.step()

    killer = Killer(server, conninfo, options.kills, done, ledger, options.seed)
    killer.start()
    with ThreadPoolExecutor(len(clients)) as threads:
        working = [threads.submit(work, client) for client in clients]
        while any(not future.done() for future in working):
            time.sleep(0.2)
            if options.progress:
                print(f"\r{ledger.operations:,} operations, {len(ledger.violations)} amiss ", end="", file=sys.stderr)
        for future in working:
            future.result()
    took = time.monotonic() - began
    if not ledger.violations:
        killer.join(120)
    return took


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """The whole run; its figures."""
    ledger = Ledger()
    logger = logging.getLogger("lore_retriever")
    logger.addHandler(Retries(ledger))
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # tells of every connection that a kill cuts
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, embedded.start(Path(folder) / "pg") as server:
        return _on_server(options, ledger, server)


def _on_server(options: argparse.Namespace, ledger: Ledger, server: Any) -> dict[str, Any]:
    conninfo = server.conninfo()
    admin = StoreAdmin.connect(conninfo)
    embedder = Moody(options.seed)
    admin.migrate(embedder)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {APPLICATION} LOGIN IN ROLE lore_user")
    application = server.conninfo(user=APPLICATION)
    size = {"embedder": embedder, "min_size": 1, "max_size": max(2, options.clients // 3)}
    with MemoryStore.connect(application, **size) as store, running_loop() as loop:
        async_store = AsyncMemoryStore.connect(application, **size)
        _on(loop, async_store.open())
        clients = [_client(number, options, store, async_store, loop, ledger) for number in range(options.clients)]
        took = load(options, clients, ledger, server, conninfo)
        embedder.is_well = True
        check_pool(ledger, store._driver.pool, "synchronous")
        check_pool(ledger, async_store._driver.pool, "asynchronous")
        _check_all(ledger, admin, conninfo, clients)
        _on(loop, async_store.close())
    return figures(options, ledger, took, sum(len(client.mine) for client in clients))


def _check_all(ledger: Ledger, admin: StoreAdmin, conninfo: str, clients: Sequence[Client]) -> None:
    """What must be so once everybody is quiet, and again after maintenance."""
    check_users(ledger, clients)
    check_tables(ledger, conninfo, HashEmbedder(32), is_settled=False)
    admin.embed(HashEmbedder(32), retry=True)
    admin.maintain()
    check_users(ledger, clients)
    check_tables(ledger, conninfo, HashEmbedder(32), is_settled=True)
    check_server(ledger, conninfo)


def _client(
    number: int,
    options: argparse.Namespace,
    store: MemoryStore,
    async_store: AsyncMemoryStore,
    loop: asyncio.AbstractEventLoop,
    ledger: Ledger,
) -> Client:
    name = (ORGS[number // 2 % len(ORGS)], f"user {number}")

    def view(user: str) -> Any:
        if number % 2:
            return Awaited(async_store.as_user(name[0], user), loop)
        return store.as_user(name[0], user)

    return Client(name, view(name[1]), view("all"), ledger, options.seed * 1000 + number)


def figures(options: argparse.Namespace, ledger: Ledger, took: float, memories: int) -> dict[str, Any]:
    """What was done, how fast, and what was amiss."""
    operations = {}
    for name, seconds in sorted(ledger.seconds.items()):
        ms = sorted(1000 * second for second in seconds)
        cut = statistics.quantiles(ms, n=100, method="inclusive") if len(ms) > 1 else ms * 99
        operations[name] = {"n": len(ms), "p50_ms": cut[49], "p99_ms": cut[98], "longest_ms": ms[-1]}
    return {
        "clients": options.clients,
        "seed": options.seed,
        "seconds": took,
        "operations": ledger.operations,
        "operations_per_second": ledger.operations / took,
        "kills_of_the_server": ledger.counts.get("kills_of_the_server", 0),
        "kills_of_a_backend": ledger.counts.get("kills_of_a_backend", 0),
        "retries": ledger.counts.get("retries", 0),
        "open_outcomes": ledger.counts.get("open_outcomes", 0),
        "errors": dict(sorted(ledger.errors.items())),
        "memories_at_the_end": memories,
        "by_operation": operations,
        "violations": ledger.violations,
    }


def printed(found: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [f"{'operation':16} {'n':>8} {'p50 ms':>8} {'p99 ms':>9} {'longest ms':>11}"]
    lines += [
        f"{name:16} {row['n']:8,} {row['p50_ms']:8.1f} {row['p99_ms']:9.1f} {row['longest_ms']:11.0f}"
        for name, row in found["by_operation"].items()
    ]
    lines += [
        "",
        f"{found['operations']:,} operations of {found['clients']} clients in {found['seconds']:.0f} s:"
        f" {found['operations_per_second']:.0f} a second",
        f"{found['kills_of_the_server']} kills of the server, {found['kills_of_a_backend']} of one of its processes;"
        f" {found['retries']} transactions run again; {found['open_outcomes']} writes whose outcome had to be looked up",
        f"errors: {found['errors'] or 'none'}",
        f"{found['memories_at_the_end']} memories at the end, all as their writers know them",
        f"amiss: {len(found['violations'])}",
        *(f"  {what[:400]}" for what in found["violations"][:MOST_VIOLATIONS]),
    ]
    return "\n".join(lines)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long; ignored with --operations")
    parser.add_argument("--operations", type=int, help="how many operations instead")
    parser.add_argument("--kills", type=int, default=3, help="how often the server dies")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1, help="draws the same operations and marks again")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--progress", action="store_true", help="tell on standard error how far it is")
    return parser


def main() -> int:
    """Run it; 0 if nothing was amiss."""
    options = arguments().parse_args()
    found = soak(options)
    print(json.dumps(found, indent=1, ensure_ascii=False) if options.json else printed(found))
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
