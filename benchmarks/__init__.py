"""Measurements of qpaths: suites of problems, speed, coverage, reliability, other packages; with their results."""
