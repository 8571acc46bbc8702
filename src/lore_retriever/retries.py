"""Which transactions are run again, how often, and after what pause. Pure, but for chance."""

from __future__ import annotations

import random

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

__all__ = ["MOST_ROUNDS", "MOST_TRIES", "may_retry", "pause_s", "was_cut"]

MOST_TRIES = 3
"""Runs of one transaction whose connection was cut."""

MOST_ROUNDS = 6
"""Runs of one transaction that lost against others: a deadlock, a serialisation failure, a memory forgotten amid its change."""

_CUT_STATES = ("57P01", "57P02", "57P03", "57P05")
"""SQLSTATEs of a server that shuts down, crashed, is starting, or ended an idle session."""


def was_cut(error: Exception) -> bool:
    """Whether the connection broke, or the server went away."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, PoolTimeout | PoolClosed):
        return False
    # Without a state it is the wire's own; with another one the server answered, and would answer so again.
    return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _CUT_STATES


def _lost(error: Exception) -> bool:
    if isinstance(error, pg.ForeignKeyViolation):
        # The memory that was about to be replaced, and its text kept, was forgotten meanwhile.
        return error.diag.constraint_name == "history_org_key_fkey"
    return isinstance(error, pg.DeadlockDetected | pg.SerializationFailure)


def may_retry(error: Exception, tries: int) -> bool:
    """Whether a transaction that failed so, after so many runs, is run again.

    A cut connection leaves it open whether the commit arrived. Doing it again is safe: every kind of change can tell that it
    is already there (docs/explanation/faults.md).
    """
    return tries < MOST_ROUNDS if _lost(error) else was_cut(error) and tries < MOST_TRIES


def pause_s(error: Exception, tries: int) -> float:
    """How long those who lost against each other wait, so that they do not meet again; 0 for any other error."""
    return random.uniform(0, 0.02 * 2**tries) if _lost(error) else 0.0
