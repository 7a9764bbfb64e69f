"""Judges recorded histories. Knows nothing of the product: what it concludes, it concludes from the lines alone."""

from holdall.checker.judging import judge
from holdall.checker.records import nanoseconds
from holdall.checker.report import render, to_json
from holdall.checker.verdict import Floors, Verdict, Violation

__all__ = ["Floors", "Verdict", "Violation", "judge", "nanoseconds", "render", "to_json"]
