"""Commands on a store as a whole: migrate, status, doctor, maintain, config show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from lore_retriever.cli.bars import bar
from lore_retriever.cli.identifying import chosen_identity
from lore_retriever.cli.opening import Keeper, named_model, opened_keeper, opened_memories, opened_server, opened_store
from lore_retriever.cli.output import console, print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.cli.storing import waiting
from lore_retriever.errors import EmbeddingSpaceMismatch, PermissionDenied, ScopeMissing

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "migrate", caller=False)(migrate)
    command(app, "status")(status)
    command(app, "doctor", caller=False)(doctor)
    command(app, "maintain", caller=False)(maintain)
    config = typer.Typer(help="Settings of the search.", no_args_is_help=True)
    command(config, "show", caller=False)(config_show)
    command(config, "result-budget", caller=False)(config_result_budget)
    app.add_typer(config, name="config")


def migrate(
    settings: Settings,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print all of it as a psql script instead; needs no database.")
    ] = False,
    no_roles: Annotated[
        bool, typer.Option("--no-roles", help="The four roles were made beforehand; create none.")
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity",
            metavar="MODE",
            help="How callers are known from now on: settings (a trusted server names them; so is a new store), role (the"
            " login role), claims (a signed token), gateway (PostgREST or Supabase).",
        ),
    ] = None,
    org_claim: Annotated[
        str, typer.Option("--org-claim", metavar="PATH", help="Where claims name the organisation, dots between names.")
    ] = "org",
    user_claim: Annotated[
        str, typer.Option("--user-claim", metavar="PATH", help="Where claims name the user.")
    ] = "sub",
    audience: Annotated[
        str | None, typer.Option("--audience", help="For whom tokens must be meant (aud), with --identity claims.")
    ] = None,
) -> None:
    """Bring a database up to date. A new one also needs --model; the built-in Postgres takes offline."""
    chosen = chosen_identity(identity, org_claim, user_claim, audience)
    if print_sql:
        from lore_retriever.identity import printed_identity
        from lore_retriever.migrations import printed_sql

        schema = settings.schema or "lore"
        print(
            printed_sql(schema, roles=not no_roles) + ("" if chosen is None else printed_identity(chosen, schema)),
            end="",
        )
        return
    with opened_server(settings) as keeper:
        done = keeper.admin.migrate(
            named_model(settings),
            roles=not no_roles,
            identity=chosen,
            default_to_offline=keeper.home is not None,
        )
        space = keeper.admin.space()
    if settings.as_json:
        print_json({"applied": done, "embedding_space": None if space is None else str(space)})
        return
    for name in done:
        print(f"applied {name}")
    print(f"schema {keeper.admin.schema} is up to date.")
    if chosen is not None:
        print(f"identity {chosen}")
    if space is None:
        status_line(
            "no embedding model is recorded yet: run migrate again with --model offline, --model e5 or another model."
        )


def status(settings: Settings) -> None:
    """Where the store is, how its schema stands to this program, and what is in it."""
    with opened_server(settings) as keeper:
        found = keeper.admin.status()
        facts: dict[str, Any] = {
            "server": "built-in Postgres" if keeper.home is not None else "Postgres",
            "folder": None if keeper.home is None else str(keeper.home),
            **{name: value for name, value in asdict(found).items() if name != "applied"},
            "applied": len(found.applied),
        }
    if found.state == "current":
        facts |= _contents(settings)
    if settings.as_json:
        print_json(facts)
    else:
        for name, value in facts.items():
            if value not in (None, (), []):
                text = ", ".join(value) if isinstance(value, list | tuple) else str(value)
                line = Text.assemble((f"{name.replace('_', ' '):>16}  ", "dim"), shown(text))
                console().print(line, soft_wrap=True)
    found.require_current()


def _contents(settings: Settings) -> dict[str, Any]:
    """What the caller sees in a store that is current."""
    from lore_retriever.operations.common import fetch
    from lore_retriever.types import Scope

    with opened_memories(settings) as memories:
        try:
            space = memories.store.space
        except (EmbeddingSpaceMismatch, ImportError) as error:
            return {"embedding_space": str(error)}
        [known] = memories.store.perform(fetch("recorded_identity"), Scope(org="none", user="none"))
        facts = {"embedding_space": str(space.embedder.space), "identity": known["identity"]}
        try:
            rows = memories.store.perform(fetch("count_memories"), memories.scope)
        except (PermissionDenied, ScopeMissing) as error:
            return facts | {"caller": str(error)}
        return facts | {
            "caller": f"{memories.scope.user} of {memories.scope.org}",
            "memories": rows[0]["n"],
            "waiting": waiting(memories)[0],
        }


def maintain(
    settings: Settings,
    rebuild_text: Annotated[
        str | None,
        typer.Option(
            "--rebuild-text",
            metavar="CONFIG",
            help="Index every text under another text-search configuration, such as german or english+unaccent;"
            " searches go on meanwhile.",
        ),
    ] = None,
    new_centre: Annotated[
        bool, typer.Option("--new-centre", help="Measure the centre of the vectors anew, and write all codes again.")
    ] = False,
) -> None:
    """Recount word frequencies, purge what has expired, count votes, see to codes, vacuum."""
    with opened_keeper(settings) as keeper:
        indexed = {} if rebuild_text is None else {"indexed": _rebuild_text(keeper, rebuild_text)}
        done = keeper.admin.maintain(new_centre=new_centre) | indexed
    if settings.as_json:
        print_json(done)
    else:
        print(", ".join(f"{what} {count:,}" for what, count in done.items()))


def _rebuild_text(keeper: Keeper, config: str) -> int:
    with bar("indexing", 0) as advance:
        before = 0

        def told(done: int, total: int) -> None:
            nonlocal before
            advance(done - before, total=total)
            before = done

        return keeper.admin.rebuild_text(config, progress=told)


def doctor(settings: Settings) -> None:
    """Check the server, the schema, roles, row security and what waits; say what is wrong and the way out."""
    from lore_retriever.doctor import examine

    with opened_server(settings) as keeper:
        report = examine(
            keeper.database, schema=keeper.admin.schema, admin=keeper.admin, embedder=named_model(settings)
        )
    if settings.as_json:
        print_json(report)
    else:
        marks = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "red"), "unknown": ("?", "dim")}
        table = Table.grid(padding=(0, 1))
        for finding in report.findings:
            table.add_row(Text(*marks[finding.state]), Text(finding.check, style="bold"), Text(shown(finding.told)))
            if finding.way_out:
                table.add_row("", "", Text(shown(finding.way_out), style="dim"))
        console().print(table)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def config_show(settings: Settings) -> None:
    """Print the settings in use: of the search, of the store, and how each kind fades."""
    from lore_retriever.operations.common import fetch
    from lore_retriever.types import Scope

    with opened_store(settings) as store:
        scope = Scope(org="none", user="none")  # settings are nobody's: any scope reads the same
        fusion = store.perform(fetch("fusion_in_use"), scope)[0]
        of_store = store.perform(fetch("store_settings"), scope)[0]
        kinds = store.perform(fetch("kinds_in_use"), scope)
    if settings.as_json:
        print_json({"fusion": fusion["knobs"], "is_set": fusion["is_set"], "store": of_store, "kinds": kinds})
        return
    _print_config(fusion, of_store, kinds)


def config_result_budget(
    settings: Settings,
    characters: Annotated[int, typer.Argument(metavar="CHARACTERS", help="Of all rows of a result, as JSON.")],
) -> None:
    """Bound what one search returns; the lowest hits are left out beyond it, never the first."""
    with opened_keeper(settings) as keeper:
        keeper.admin.set_result_budget(characters)
    if settings.as_json:
        print_json({"result_budget": characters})
    else:
        print(f"results end at {characters:,} characters")


def _print_config(fusion: dict[str, Any], of_store: dict[str, Any], kinds: Sequence[dict[str, Any]]) -> None:
    from lore_retriever.config import FusionConfig

    out = console()
    out.print(Text("search: " + ("accepted settings" if fusion["is_set"] else "the shipped defaults"), style="bold"))
    table = Table("knob", "value", "default", box=box.SIMPLE_HEAD, show_edge=False)
    for name, field in FusionConfig.model_fields.items():
        value = fusion["knobs"].get(name)
        changed = "bold" if value != field.default else ""
        table.add_row(name, Text(f"{value:,}", style=changed), f"{field.default:,}")
    out.print(table)
    out.print(Text("\nstore", style="bold"))
    for name, value in of_store.items():
        out.print(f"  {name}  {json.dumps(value)}")
    out.print(Text("\nkinds: days until a memory counts half, and the least it counts", style="bold"))
    for row in kinds:
        days = "never fades" if row["half_life_days"] is None else f"{row['half_life_days']:g} days"
        out.print(f"  {row['kind'] or 'any other':<14} {days:<12} {row['recency_floor']:g}")
