"""Writes settings on evidence, and takes them back: what happened stands in `eval_runs`.

Runs are recorded first, each in a transaction of its own; the acceptance and the settings change together in one.
A crash between leaves recorded runs and the settings as they were, and accepting again finds those runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lore_retriever.config import FusionConfig
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.acceptance import Verdict, compare_settings
from lore_retriever.evaluation.calibration import Calibration
from lore_retriever.evaluation.laboratory import Laboratory, rows_of, write_config
from lore_retriever.evaluation.measures import DEFAULT_MEASURES, measure
from lore_retriever.evaluation.runner import code_version, fused_run
from lore_retriever.evaluation.runs import Run
from lore_retriever.evaluation.suites import Suite
from lore_retriever.evidence import Evidence

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["Entry", "Outcome", "accept", "apply_evidence", "history", "record_run", "recorded_run", "undo"]

Notice = Callable[[str], object]
"""Told what is being done, before it is done."""


@dataclass(frozen=True)
class Outcome:
    """What came of new settings.

    Attributes:
        run: Number of the acceptance in `eval_runs`, or None where they were refused.
    """

    verdict: Verdict
    run: int | None


@dataclass(frozen=True)
class Entry:
    """One line of the history.

    Attributes:
        event: `run`, `accepted` or `undone`.
        config: The settings that ran, or that were in use afterwards.
    """

    run: int
    created_at: datetime
    event: str
    suite: str
    data_hash: str
    code_version: str
    config: dict[str, Any]
    measures: dict[str, Any]


def accept(
    laboratory: Laboratory,
    suites: Sequence[Suite],
    config: FusionConfig,
    *,
    tolerance: float = 0.0,
    k: int = 10,
    notice: Notice = lambda _: None,
) -> Outcome:
    """Put new settings in use, if a recorded run is not worse than one with the settings in use, on any suite.

    Raises:
        InvalidInput: If no suite is named, or others changed the settings meanwhile.
        PermissionDenied: If the connection may not act as the service role.
    """
    current = laboratory.config()
    before: dict[str, Run] = {}
    after: dict[str, Run] = {}
    for suite in suites:
        notice(f"{suite.name}: the settings in use")
        before[suite.name] = recorded_run(suite, laboratory, current, k=k)
        notice(f"{suite.name}: the new settings")
        after[suite.name] = recorded_run(suite, laboratory, config, k=k)
    notice("judging")
    verdict = compare_settings(suites, before, after, tolerance=tolerance)
    if not verdict.is_accepted:
        return Outcome(verdict, None)
    detail = {"event": "accepted", "tolerance": tolerance, "k": k}
    with laboratory.admin.service() as cursor:
        rows_of(cursor, "hold_fusion")
        (in_use,) = rows_of(cursor, "fusion_in_use")
        if FusionConfig(**_knobs(in_use["knobs"])) != current:
            raise InvalidInput("the settings in use have changed since these runs began: accept again.")
        previous = in_use["knobs"] if in_use["is_set"] else None
        run = _record(cursor, suites, config.model_dump(), _changes(verdict), {**detail, "previous": previous})
        write_config(cursor, config, run=run)
        notice("writing")
    return Outcome(verdict, run)


def undo(admin: StoreAdmin) -> FusionConfig:
    """Put back the settings that the latest acceptance replaced; the settings now in use.

    Raises:
        InvalidInput: If nothing was accepted, or the settings in use are not those of the latest acceptance.
        PermissionDenied: If the connection may not act as the service role.
    """
    with admin.service() as cursor:
        rows_of(cursor, "hold_fusion")
        accepted = rows_of(cursor, "last_acceptance")
        if not accepted:
            raise InvalidInput("nothing was accepted that could be undone: see `eval history`.")
        (row,), (in_use,) = accepted, rows_of(cursor, "fusion_in_use")
        if in_use["knobs"]["accepted_run"] != row["run"]:
            raise InvalidInput(
                f"the settings in use do not come from acceptance {row['run']}: they were written past the "
                "harness. Accept settings anew."
            )
        previous = row["detail"]["previous"]
        if previous is None:
            rows_of(cursor, "clear_fusion")
        else:
            write_config(cursor, FusionConfig(**_knobs(previous)), run=previous["accepted_run"])
        restored = FusionConfig(**_knobs(previous or {}))
        _record(cursor, (), restored.model_dump(), {}, {"event": "undone", "of": row["run"]})
    return restored


def history(admin: StoreAdmin, *, limit: int = 50) -> list[Entry]:
    """Recorded runs, acceptances and undoings, the latest first."""
    with admin.service() as cursor:
        rows = rows_of(cursor, "eval_history", {"limit": limit})
    return [Entry(event=(row.pop("detail") or {}).get("event", "run"), **row) for row in rows]


def recorded_run(suite: Suite, laboratory: Laboratory, config: FusionConfig, *, k: int = 10) -> Run:
    """The fused run of a suite with these settings: as recorded with the same data and code, else made and recorded."""
    version = code_version()
    key = {
        "suite": suite.name,
        "data_hash": suite.fingerprint,
        "code_version": version,
        "config": json.dumps(_settings(laboratory, config, k)),
    }
    with laboratory.admin.service() as cursor:
        found = rows_of(cursor, "find_eval_run", key)
    if found and "run" in (found[0]["detail"] or {}):
        return Run.model_validate(found[0]["detail"]["run"])
    fused = fused_run(suite, laboratory, config, k=k)
    record_run(suite, laboratory, fused, config, k=k)
    return fused


def record_run(suite: Suite, laboratory: Laboratory, run: Run, config: FusionConfig, *, k: int = 10) -> int:
    """Keep a fused run in `eval_runs`, rankings and all; its number there."""
    means = measure(suite, run, DEFAULT_MEASURES).mean if suite.judged else {}
    with laboratory.admin.service() as cursor:
        detail = {"run": run.model_dump(mode="json")}
        return _record(cursor, (suite,), _settings(laboratory, config, k), means, detail)


def _settings(laboratory: Laboratory, config: FusionConfig, k: int) -> dict[str, Any]:
    return {**config.model_dump(), "k": k, "space": str(laboratory.embedder.space)}


def _knobs(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in FusionConfig.model_fields}


def _changes(verdict: Verdict) -> dict[str, dict[str, list[float]]]:
    changes: dict[str, dict[str, list[float]]] = {}
    for each in verdict.comparisons:
        changes.setdefault(each.suite, {})[each.measure] = [each.before, each.after]
    return changes


def _record(
    cursor: psycopg.Cursor[Any],
    suites: Sequence[Suite],
    config: Mapping[str, Any],
    measures: Mapping[str, Any],
    detail: Mapping[str, Any],
) -> int:
    fingerprints = [suite.fingerprint for suite in suites]
    together = hashlib.sha256("".join(fingerprints).encode()).hexdigest()
    params = {
        "suite": ", ".join(suite.name for suite in suites),
        "data_hash": fingerprints[0] if len(fingerprints) == 1 else together,
        "code_version": code_version(),
        "config": json.dumps(config),
        "measures": json.dumps(measures),
        "detail": json.dumps(detail),
    }
    (row,) = rows_of(cursor, "record_eval_run", params)
    return int(row["run"])


def apply_evidence(laboratory: Laboratory, calibration: Calibration) -> dict[str, float]:
    """Record how evidence is judged in the searched space; what was recorded.

    Stores that are open already go on with what they read when they were opened.

    Raises:
        PermissionDenied: If the connection may not act as the service role.
    """
    known = Evidence.__dataclass_fields__
    evidence = {name: value for name, value in asdict(calibration).items() if name in known}
    space = laboratory.embedder.space
    params = {"model": space.model, "revision": space.revision, "dimensions": space.dimensions}
    with laboratory.admin.service() as cursor:
        rows_of(cursor, "write_evidence", {**params, "evidence": json.dumps(evidence)})
    return evidence
