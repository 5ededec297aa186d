"""Count what a run costs, and show how far it has come."""

import contextlib
import dataclasses
import datetime
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True)
class Cost:
    """Numbers of evaluations: of values alone, and of values together with their gradient.

    Costs add up and can be multiplied by a number.

    Attributes:
        base: Values of the base.
        target: Values of the target.
        base_gradient: Values with gradient of the base.
        target_gradient: Values with gradient of the target.

    A gradient counts as two values in `total`. Costs are counted from the settings of a run, so evaluations that a
    density makes inside itself are not seen. See [The result](algorithms.md#the-result).

    Examples:
        >>> total = Cost.values(100) + 3 * Cost.gradients(50)
        >>> total.target, total.target_gradient, total.total
        (100, 150, 400)
    """

    base: int = 0
    target: int = 0
    base_gradient: int = 0
    target_gradient: int = 0

    @staticmethod
    def values(num: int) -> "Cost":
        """`num` values of each end."""
        return Cost(base=num, target=num)

    @staticmethod
    def gradients(num: int) -> "Cost":
        """`num` values with gradient of each end."""
        return Cost(base_gradient=num, target_gradient=num)

    @property
    def total(self) -> int:
        """Evaluations of the target, a gradient counted as two: what a budget is compared with."""
        return self.target + 2 * self.target_gradient

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.base + other.base,
            self.target + other.target,
            self.base_gradient + other.base_gradient,
            self.target_gradient + other.target_gradient,
        )

    def __mul__(self, factor: int) -> "Cost":
        return Cost(
            factor * self.base, factor * self.target, factor * self.base_gradient, factor * self.target_gradient
        )

    __rmul__ = __mul__


Show = Callable[[str, float | None], None]
"""Takes a line of text and the share of the run that is done, None where that is not known."""

_FIRST_LINES = 10
"""Stages that are always printed, so that a short run shows all of them."""


@contextlib.contextmanager
def display(progress: bool) -> Iterator[Show]:
    """A context that yields the function to call after each stage: `show(line, share_done)`.

    It does nothing without `progress`, draws a bar on a terminal where `rich` is installed, and prints lines otherwise.
    """
    if not progress:
        yield lambda line, share: None
    elif sys.stderr.isatty() and (bar := _bar()):
        with bar as show:
            yield show
    else:
        yield Lines()


@contextlib.contextmanager
def never_silent(show: Show, words: Callable[[], str], every: float = 4.0) -> Iterator[Show]:
    """Yield a function such as `show`, which also shows some words whenever nothing was shown for so many seconds."""
    done, last = threading.Event(), [time.monotonic() - every / 2]

    def shown(line: str, share: float | None) -> None:
        last[0] = time.monotonic()
        show(line, share)

    def beat() -> None:
        while not done.wait(every / 8):
            if time.monotonic() - last[0] >= every:
                shown(words(), None)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        done.set()
        thread.join()


def _bar() -> Any:
    """A bar, or None where `rich` is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
    except ImportError:
        return None

    @contextlib.contextmanager
    def opened() -> Iterator[Show]:
        columns = BarColumn(bar_width=12), TextColumn("{task.description}")
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("first stage", total=None)

            def show(line: str, share: float | None) -> None:
                total = None if share is None else 1.0
                bar.update(task, description=line, total=total, completed=share or 0.0)

            yield show

    return opened()


class Lines:
    """A line for each stage; after the first ones at most one per second, and per hundredth of the time so far."""

    def __init__(self) -> None:
        self.num = 0
        self.start = self.last = time.monotonic()

    def __call__(self, line: str, share: float | None) -> None:
        now = time.monotonic()
        self.num += 1
        pause = max(1.0, 0.01 * (now - self.start))
        if self.num <= _FIRST_LINES or share == 1.0 or now - self.last >= pause:
            self.last = now
            print(line, file=sys.stderr, flush=True)


class Clock:
    """Speed and time left, from the stages of this process.

    The first stage compiles and does not count.
    """

    def __init__(self) -> None:
        self.num = 0
        self.start = 0.0

    def per_second(self, num_per_stage: int) -> float | None:
        """Evaluations per second, after `seconds_left` has counted the stage."""
        seconds = time.monotonic() - self.start
        return (self.num - 1) * num_per_stage / seconds if self.num > 1 and seconds > 0 else None

    def seconds_left(self, num_left: float | None) -> float | None:
        """To be called once after each stage."""
        self.num += 1
        if self.num == 1:
            self.start = time.monotonic()
        if num_left is None or self.num == 1:
            return None
        return (time.monotonic() - self.start) / (self.num - 1) * num_left


def stages_left(stage: int, num_stages: int | None, beta_before: float, beta: float) -> float | None:
    """Return how many stages are left, or None where nothing is known.

    Exact for a fixed schedule. An adaptive one is taken to go on multiplying beta as in its last step.
    """
    if num_stages is not None:
        return float(num_stages - stage)
    if beta >= 1:
        return 0.0
    return math.log(beta) / math.log(beta_before / beta) if beta_before > 0 else None


def line_of(
    stage: int, num_stages: int | None, row: dict[str, Any], num: int, seconds: float | None, rate: float | None
) -> str:
    """One stage as a line: beta, ESS, acceptance rate, log evidence, speed, and time left."""
    of_all = "" if num_stages is None else f"/{num_stages}"
    speed = "" if rate is None else f", {rate:,.0f} evaluations/s"
    left = "" if seconds is None else f", {datetime.timedelta(seconds=round(seconds))} left"
    return (
        f"stage {stage}{of_all}: beta {float(row['beta']):.4g}, ESS {float(row['ess']) / num:.0%}, "
        f"acceptance {float(row['acceptance']):.0%}, log evidence {float(row['log_evidence']):.3f}{speed}{left}"
    )
