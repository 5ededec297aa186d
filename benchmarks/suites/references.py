"""The log evidences of docs/reference_evidences.md, for suites whose models are not in this repository."""

import tomllib
from pathlib import Path

SOURCE = Path(__file__).parent / "reference_evidences.toml"


def truths_of(suite):
    """Log evidence and standard error of each target of a suite, such as `eprv3` or `posteriordb`."""
    groups = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["groups"]
    targets = [target for group in groups for target in group["targets"] if target.get("suite") == suite]
    return {target.get("key", target["name"]): (target["log_evidence"], target["standard_error"]) for target in targets}
