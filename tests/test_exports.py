"""The public names: sorted, documented, and the same for synchronous and asynchronous callers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import lore_retriever
from lore_retriever import AsyncMemories, AsyncMemoryStore, Memories, MemoryStore

PROMISED = {
    "lore_retriever": {
        *("MemoryStore", "AsyncMemoryStore", "Scope", "NewMemory", "Memory", "Hit", "LegMatch", "Recall", "Briefing"),
        *("FusionConfig", "LoreError", "InvalidInput", "NotFound", "PermissionDenied", "ScopeMissing"),
        *("EmbeddingSpaceMismatch", "EmbeddingFailed", "SchemaMismatch", "StoreUnavailable"),
    },
    "lore_retriever.embeddings": {
        *("Embedder", "OfflineEmbedder", "E5Embedder", "SentenceTransformerEmbedder", "LangChainEmbedder"),
        *("LlamaIndexEmbedder", "CallableEmbedder", "CachedEmbedder", "HashEmbedder"),
    },
    "lore_retriever.testing": {"HashEmbedder"},
    "lore_retriever.langchain": {"LoreRetriever", "LoreVectorStore", "create_recall_tool", "LoreMemoryMiddleware"},
    "lore_retriever.llamaindex": {"LoreRetriever", "LoreVectorStore", "LoreMemoryBlock", "create_recall_tool"},
}


def modules() -> Iterator[str]:
    """Every module of the package that can be imported without a host or an entry point running."""
    yield "lore_retriever"
    for found in pkgutil.walk_packages(lore_retriever.__path__, "lore_retriever."):
        if not found.name.endswith("__main__"):
            yield found.name


def imported() -> list[ModuleType]:
    return [importlib.import_module(name) for name in modules()]


@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_names_are_there(name: str) -> None:
    module = importlib.import_module(name)
    assert PROMISED[name] <= set(module.__all__)
    for public in PROMISED[name]:
        assert getattr(module, public) is not None


def test_every_list_of_names_is_sorted_and_true() -> None:
    def order(name: str) -> tuple[int, str]:
        # Constants, classes, functions: as the linter sorts them.
        return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)

    for module in imported():
        names = getattr(module, "__all__", [])
        assert list(names) == sorted(names, key=order), module.__name__
        assert [name for name in names if not hasattr(module, name)] == [], module.__name__


def test_every_module_that_defines_something_says_what_is_public() -> None:
    without = [
        module.__name__
        for module in imported()
        if not hasattr(module, "__all__")
        and any(
            getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
            for name, value in vars(module).items()
            if inspect.isclass(value) or inspect.isfunction(value)
        )
    ]
    assert without == []


def own_members(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and (
            inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
        ):
            yield name, value


def test_every_public_name_has_a_docstring_whose_first_line_ends() -> None:
    missing = []
    for module in imported():
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if getattr(value, "__module__", None) != module.__name__ or not (
                inspect.isclass(value) or inspect.isfunction(value)
            ):
                continue
            first = (value.__doc__ or "").strip().split("\n\n")[0].rstrip()
            if not first.endswith((".", ":", "?", "`")):
                missing.append(f"{module.__name__}.{name}: {first[-60:]!r}")
            if inspect.isclass(value):
                missing += [
                    f"{module.__name__}.{name}.{member}"
                    for member, function in own_members(value)
                    if not inspect.getdoc(getattr(value, member))
                ]
    assert missing == []


def signature(function: Any) -> list[tuple[str, Any, Any, str]]:
    """Parameters of a function: name, kind, default and annotation."""
    return [
        (p.name, p.kind, p.default, str(p.annotation).replace("AsyncConnectionPool", "ConnectionPool"))
        for p in inspect.signature(function).parameters.values()
    ]


# Where the twins differ on purpose.
ONLY_SYNC = {MemoryStore: {"space", "embedder"}, Memories: set()}
ONLY_ASYNC = {MemoryStore: {"open", "open_space", "is_on_its_loop", "blocking"}, Memories: set()}


@pytest.mark.parametrize(("sync", "asynchronous"), [(MemoryStore, AsyncMemoryStore), (Memories, AsyncMemories)])
def test_both_kinds_have_the_same_methods_with_the_same_signatures(sync: type, asynchronous: type) -> None:
    names = dict(own_members(sync))
    others = dict(own_members(asynchronous))
    assert set(names) - set(others) == ONLY_SYNC[sync]
    assert set(others) - set(names) == ONLY_ASYNC[sync]
    for name in set(names) & set(others):
        if isinstance(names[name], property):
            assert isinstance(others[name], property)
            continue
        assert signature(getattr(sync, name)) == signature(getattr(asynchronous, name)), name


def test_what_waits_for_the_database_is_awaited() -> None:
    for name, function in own_members(AsyncMemories):
        if inspect.isfunction(function):
            assert inspect.iscoroutinefunction(function), name
    for name, function in own_members(Memories):
        assert not inspect.iscoroutinefunction(function), name


def test_results_say_the_same_types_in_both_kinds() -> None:
    for name, function in own_members(Memories):
        if inspect.isfunction(function):
            other = inspect.signature(getattr(AsyncMemories, name)).return_annotation
            assert inspect.signature(function).return_annotation == other, name


def test_errors_form_one_tree() -> None:
    errors = importlib.import_module("lore_retriever.errors")
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), lore_retriever.LoreError)
    assert issubclass(lore_retriever.InvalidInput, ValueError)
    assert issubclass(lore_retriever.NotFound, KeyError)
    assert str(lore_retriever.NotFound("no memory 'x'")) == "no memory 'x'"


def test_records_are_frozen_and_refuse_unknown_fields() -> None:
    from pydantic import BaseModel, ValidationError

    types = importlib.import_module("lore_retriever.types")
    records = [getattr(types, name) for name in types.__all__ if isinstance(getattr(types, name), type)]
    models = [record for record in records if issubclass(record, BaseModel)]
    assert len(models) > 5
    for model in [*models, lore_retriever.FusionConfig]:
        assert model.model_config.get("frozen") is True
        assert model.model_config.get("extra") == "forbid"
    scope = lore_retriever.Scope(org="acme", user="ana")
    with pytest.raises(ValidationError):
        scope.org = "globex"  # type: ignore[misc]
