"""Commands on memories: remember, recall, context, feedback, get, list, invalidate, restore, forget."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from lore_retriever.cli.explaining import explanation_view
from lore_retriever.cli.opening import opened_memories
from lore_retriever.cli.output import console, hits_view, memories_view, notes, print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import loaded_json
from lore_retriever.types import Memory, Recall, Scope

__all__ = ["register"]

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Most to show.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; repeat for more.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help='Conditions on metadata and lore_… fields, as in {"team": "infra", "year": {"$gte": 2025}}.',
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "remember")(remember)
    command(app, "recall")(recall)
    command(app, "context")(context)
    command(app, "feedback")(feedback)
    command(app, "get")(get)
    command(app, "list")(list_)
    command(app, "invalidate")(invalidate)
    command(app, "restore")(restore)
    command(app, "forget")(forget)


def parsed_filter(text: str | None) -> dict[str, Any] | None:
    """A filter from its JSON.

    Raises:
        InvalidInput: If it is no JSON object.
    """
    if text is None:
        return None
    try:
        value = loaded_json(text, what="--filter")
    except InvalidInput as error:
        raise InvalidInput(f'{error} Write it as in \'{{"team": "infra"}}\'.') from error
    if not isinstance(value, dict):
        raise InvalidInput(f'--filter is {text!r}; give a JSON object, as in \'{{"team": "infra"}}\'.')
    return value


def remember(
    settings: Settings,
    text: Annotated[str, typer.Argument(help="What to remember; - reads it from standard input.")],
    id: Annotated[  # noqa: A002
        str | None, typer.Option("--id", help="Its id; an own memory of that id is replaced. A new one by default.")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="What it is; decides how it fades.")] = "fact",
    visibility: Annotated[
        str, typer.Option("--visibility", help="private, or shared with the organisation.")
    ] = "private",
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Anything else about it, to filter by.")
    ] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Let it open every briefing.")] = False,
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="Another name it is found under; repeat for more.")
    ] = None,
) -> None:
    """Store one memory, and print its id."""
    content = _standard_input() if text == "-" else text
    fields = {"kind": kind, "visibility": visibility, "pinned": pinned, "aliases": tuple(alias or ())}
    with opened_memories(settings) as memories:
        made = memories.remember(content, id=id, metadata=parsed_filter(metadata) or {}, **fields)
    if settings.as_json:
        print_json({"id": made})
    else:
        print(shown(made))


def _standard_input() -> str:
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}."
        ) from error


def recall(
    settings: Settings,
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY", help="What to look for, in quotes; several share one ranking."),
    ],
    limit: Limit = 10,
    filter: Filter = None,  # noqa: A002
    kind: Kinds = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what every leg looked for and proposed, and the statement.")
    ] = False,
) -> None:
    """Search: the best hits, with score and rank in every leg."""
    if not "".join(queries).strip():
        raise InvalidInput(f"the query is {queries[0]!r}: it holds nothing to look for. Give words.")
    conditions = parsed_filter(filter)
    with opened_memories(settings) as memories:
        search = memories.explain if explain else memories.recall
        found = search(queries, limit=limit, filter=conditions, kinds=kind or None)
    if settings.as_json:
        print_json(found)
        return
    if isinstance(found, Recall):
        _print_recall(found, memories.scope)
        return
    _print_recall(found.recall, memories.scope)
    console().print(*explanation_view(found), sep="\n")
    print(f"\nthe statement, once, in a transaction that has set the scope\n{found.sql}")


def _print_recall(found: Recall, scope: Scope) -> None:
    if found.hits:
        console().print(hits_view(found))
        status_line(f"evidence: {found.evidence}")
    else:
        status_line(f"nothing found for user {scope.user!r} of organisation {scope.org!r} (--user, --org).")
    for note in notes(found):
        status_line(note)


def context(
    settings: Settings,
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help="What the briefing is for; without one, what matters in general."),
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Most tokens of it.")] = 2000,
    filter: Filter = None,  # noqa: A002
    kind: Kinds = None,
) -> None:
    """Print a briefing for a model: pinned memories, what the queries find, recent ones, open tasks."""
    conditions = parsed_filter(filter)
    with opened_memories(settings) as memories:
        made = memories.build_context(queries or None, max_tokens=max_tokens, filter=conditions, kinds=kind or None)
    if settings.as_json:
        print_json(made)
        return
    if made.text:
        print(shown(made.text))
    left_out = f"; left out: {len(made.dropped)}" if made.dropped else ""
    status_line(f"{made.used_tokens:,} of {made.budget_tokens:,} tokens ({made.counter}){left_out}")
    if made.degraded:
        status_line(f"degraded: {made.degraded}")


def feedback(
    settings: Settings,
    id: Id,  # noqa: A002
    useful: Annotated[bool, typer.Option("--useful/--misleading", help="Whether it helped, or led astray.")],
    recall_id: Annotated[
        str | None, typer.Option("--recall", metavar="ID", help="Id of the search that brought it up (see --json).")
    ] = None,
) -> None:
    """Say that a memory was useful, or that it misled; later searches rank it accordingly."""
    with opened_memories(settings) as memories:
        stands = memories.feedback(id, useful=useful, recall_id=recall_id)
    if settings.as_json:
        print_json(stands)
    else:
        print(f"{shown(id)}: {stands.useful} useful, {stands.misleading} misleading, counts × {stands.multiplier:.3f}")


def get(
    settings: Settings,
    id: Id,  # noqa: A002
    content: Annotated[bool, typer.Option("--content", help="Print the text alone, byte for byte.")] = False,
) -> None:
    """Print one whole memory."""
    with opened_memories(settings) as memories:
        memory = memories.get(id)
    if content:
        sys.stdout.flush()
        sys.stdout.buffer.write(memory.content.encode())
    elif settings.as_json:
        print_json(memory)
    else:
        _print_memory(memory)


def _print_memory(memory: Memory) -> None:
    out = console()
    out.print(Text(shown(memory.id), style="bold"))
    facts = memory.model_dump(mode="json", exclude={"id", "content", "content_original", "truncated"})
    for name, value in facts.items():
        if value not in (None, {}, False):
            text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
            out.print(Text.assemble((f"{name.replace('_', ' '):>15}  ", "dim"), shown(text)), soft_wrap=True)
    out.print()
    out.print(Text(shown(memory.content)), soft_wrap=True)


def list_(
    settings: Settings,
    limit: Limit = 20,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind.")] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned ones.")] = False,
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on after this one.")] = None,
    filter: Filter = None,  # noqa: A002
) -> None:
    """List memories, newest first."""
    conditions = parsed_filter(filter)
    with opened_memories(settings) as memories:
        found = memories.list(limit=limit, kind=kind, pinned=pinned or None, after=after, filter=conditions)
    if settings.as_json:
        print_json(found)
        return
    if not found:
        status_line("no memories.")
        return
    console().print(memories_view(found))
    if len(found) == limit:
        status_line(f"there may be more: --after {shlex.quote(found[-1].id)}")


def invalidate(
    settings: Settings,
    id: Id,  # noqa: A002
    superseded_by: Annotated[
        str | None, typer.Option("--superseded-by", metavar="ID", help="Id of the memory that replaces it.")
    ] = None,
) -> None:
    """Take a memory of your own out of every search; `restore` brings it back."""
    with opened_memories(settings) as memories:
        memories.invalidate(id, superseded_by=superseded_by)
    _done(settings, "invalidated", id)


def restore(settings: Settings, id: Id) -> None:  # noqa: A002
    """Bring an invalidated memory of your own back."""
    with opened_memories(settings) as memories:
        memories.restore(id)
    _done(settings, "restored", id)


def forget(
    settings: Settings,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of memories of your own.")],
) -> None:
    """Remove memories of your own for good. Unknown ids are told, and the exit code is 1."""
    with opened_memories(settings) as memories:
        gone = memories.forget_many(ids)
    missing = [each for each in dict.fromkeys(ids) if each not in gone]
    if settings.as_json:
        print_json({"forgotten": gone, "unknown": missing})
    else:
        for each in gone:
            print(f"forgotten {shown(each)}")
    for each in missing:
        status_line(f"no memory {each!r} of your own is here.")
    if missing:
        raise typer.Exit(1)


def _done(settings: Settings, what: str, id: str) -> None:  # noqa: A002
    if settings.as_json:
        print_json({what: id})
    else:
        print(f"{what} {shown(id)}")
