"""Packages that only measuring needs, loaded when they are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["needed"]


def needed(module: str) -> Any:
    """The module of that name.

    Raises:
        ImportError: If its package is not installed; names the extra that brings it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'measuring needs {package}: pip install "lore-retriever[eval]".', name=package) from error
