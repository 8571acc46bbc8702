"""The plans of a statement and of all that it runs inside functions (nested auto_explain)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg

from support import SEARCH_PATH

__all__ = ["Node", "executed", "indexes", "nodes_of"]

Node = dict[str, Any]


def nodes_of(plan: Node) -> Iterator[Node]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes_of(child)


def executed(admin: str, statement: str, params: Any = None, *, role: str = "lore_user") -> list[Node]:
    """Every node of every plan that a statement ran, also inside functions; only a superuser may load auto_explain."""
    found: list[Node] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:\n" in text:
            logged = json.loads(text.split("plan:\n", 1)[1])
            found.extend({**node, "Query Text": logged["Query Text"]} for node in nodes_of(logged["Plan"]))

    with psycopg.connect(admin) as connection:
        connection.add_notice_handler(take)
        connection.execute("LOAD 'auto_explain'")
        for name, value in (
            ("log_min_duration", "0"),
            ("log_nested_statements", "on"),
            ("log_format", "json"),
            ("log_analyze", "on"),
            ("log_timing", "off"),
            ("log_level", "notice"),
        ):
            connection.execute("SELECT set_config(%s, %s, true)", [f"auto_explain.{name}", value])
        connection.execute(
            "SELECT set_config('search_path', %s, true), set_config('role', %s, true),"
            " set_config('lore.org_id', 'acme', true), set_config('lore.user_id', 'ana', true)",
            [SEARCH_PATH, role],
        )
        found.clear()
        assert connection.execute("SELECT current_user").fetchone() == (role,)
        connection.execute(statement.encode(), params).fetchall()
    return found


def indexes(nodes: list[Node]) -> set[str]:
    return {node["Index Name"] for node in nodes if "Index Name" in node}
