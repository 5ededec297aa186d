"""Suites of problems with known log evidences, and what runs `qpaths.evidence` on them."""
