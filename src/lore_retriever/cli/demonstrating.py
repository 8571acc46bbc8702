"""`demo`: a small invented team, its memories and questions, and what every leg found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.padding import Padding
from rich.text import Text

from lore_retriever.cli.bars import bar
from lore_retriever.cli.opening import Keeper, named_model, opened_server
from lore_retriever.cli.output import console, hits_view, print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.cli.storing import Tally, embed_own, store_missing, waiting
from lore_retriever.demo import DEMO_AS_OF, DemoQuestion, demo_memories_by_scope, demo_questions

if TYPE_CHECKING:
    from lore_retriever.store import MemoryStore
    from lore_retriever.types import Recall

__all__ = ["register"]

SCHEMA = "lore_demo"
HITS_SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "demo", caller=False)(demo)


def demo(settings: Settings) -> None:
    """Ask a small invented team's memories twelve questions, and see which leg found what."""
    with _opened(settings) as store:
        started = time.monotonic()
        count, vectors = _load(store)
        status_line(
            f"{count} memories of two organisations, {vectors} new vectors, ready in {time.monotonic() - started:.1f} s\n"
        )
        answers = [(question, _ask(store, question)) for question in demo_questions()]
    if settings.as_json:
        print_json([found for _, found in answers])
        return
    for number, (question, found) in enumerate(answers, start=1):
        _print_answer(number, question, found)
    _print_ending(settings)


@contextmanager
def _opened(settings: Settings) -> Iterator[MemoryStore]:
    """A store of its own: another folder of the built-in Postgres, or another schema of the given database."""
    from lore_retriever.embeddings import CachedEmbedder, OfflineEmbedder
    from lore_retriever.store import MemoryStore

    placed = settings.with_schema(SCHEMA)
    if settings.database is None and settings.folder is None:
        from lore_retriever import embedded

        placed = replace(placed, folder=embedded.default_path().with_name("postgres-demo"))
    embedder = CachedEmbedder(named_model(settings) or OfflineEmbedder(), _cache_file())
    with embedder, opened_server(placed) as keeper:
        if settings.schema is None:
            _renew(keeper)
        keeper.admin.migrate(embedder)
        with MemoryStore.connect(keeper.database, embedder=embedder, schema=placed.schema or SCHEMA) as store:
            yield store


def _renew(keeper: Keeper) -> None:
    """Drop a demo that another version of this program left: its schema holds nothing else, and is made in seconds."""
    if keeper.admin.status().state not in ("ahead", "edited"):
        return
    import psycopg
    from psycopg import sql

    with psycopg.connect(keeper.conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))


def _cache_file() -> Path:
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(
            'the demo needs platformdirs: pip install "lore-retriever[quickstart]".', name="platformdirs"
        ) from error
    return platformdirs.user_cache_path("lore-retriever", appauthor=False) / "vectors.sqlite"


def _load(store: MemoryStore) -> tuple[int, int]:
    """Store what is missing, then make the vectors; how many memories there are, how many vectors are new."""
    scopes = demo_memories_by_scope()
    views = [store.as_user(scope.org, scope.user) for scope in scopes]
    for view, batch in zip(views, scopes.values(), strict=True):
        store_missing(view, batch, Tally())
    windows = sum(waiting(view)[1] for view in views)
    done = 0
    if windows:
        with bar("embedding", windows) as advance:
            done = sum(embed_own(view, advance) for view in views)
    return sum(len(batch) for batch in scopes.values()), done


def _ask(store: MemoryStore, question: DemoQuestion) -> Recall:
    view = store.as_user(question.scope.org, question.scope.user)
    return view.recall(question.query, limit=HITS_SHOWN, as_of=DEMO_AS_OF)


def _print_answer(number: int, question: DemoQuestion, found: Recall) -> None:
    out = console()
    caller = f"{question.scope.user} of {question.scope.org}"
    out.print(Text.assemble((f"{number}. {question.query}", "bold cyan"), (f"   {caller}", "dim")))
    out.print(Text(shown(question.shows), style="italic"))
    out.print(Padding(hits_view(found, mark=question.expect), (0, 0, 1, 0)))


def _print_ending(settings: Settings) -> None:
    place = f" --database {settings.database!r}" if settings.database else ""
    out = console()
    out.print(Text("Each number under a leg is the memory's place there; – means that the leg did not find it.", "dim"))
    out.print(Text("Now with your own:", style="bold"))
    for line, what in (
        (f"lore-retriever add{place} docs/ notes.md", "Markdown, text and JSONL become memories"),
        (f'lore-retriever recall{place} "how do we roll back?"', "ask them"),
        (f"lore-retriever doctor{place}", "is everything as it should be?"),
        ("lore-retriever --help", "everything else"),
    ):
        out.print(f"  {line:<52} {what}")
