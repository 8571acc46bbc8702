"""Judges retrieval by evidence: suites of plain files, measures, probes, baselines, and accepted settings.

Needs the `eval` extra for everything that computes; the records and the loaders need nothing.
"""
