"""How much the explorer loads, and how long it takes to answer a drag: writes `benchmarks/results/site.md`.

Run `python -m benchmarks.speed.site` on a machine with Chromium. Two times are taken for each event of a drag. The busy
time is the processor time of the page's main thread: script, style, layout and painting. It does not depend on what
else the machine does. The answer time runs from the time stamp of the event to the end of the frame that shows its
effect.
"""

import argparse
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from benchmarks.speed.browser import Browser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explorer" / "index.html"
RESULTS = ROOT / "benchmarks" / "results" / "site.md"

PROBE = """
window.answers = [];
for (const kind of ["pointermove", "input"]) window.addEventListener(kind, (event) => {
  if (kind === "pointermove" && event.buttons === 0) return;
  const start = event.timeStamp;
  requestAnimationFrame(() => { const channel = new MessageChannel();
    channel.port1.onmessage = () => window.answers.push(performance.now() - start); channel.port2.postMessage(0); });
}, true);
"""
"""Runs before the page's own scripts; the message arrives after the frame was painted."""

DRAGS = {
    "q, one dimension": ("narrow", "#q", (120, 0)),
    "beta, one dimension": ("narrow", "#beta", (120, 0)),
    "mean of the target, one dimension": ("narrow", '[aria-label="Mean of the target"]', (-120, 0)),
    "q, two dimensions": ("plane", "#q", (-120, 0)),
    "beta, two dimensions": ("plane", "#beta", (120, 0)),
    "mean of the target, two dimensions": ("plane", '[aria-label="Mean of the target"]', (-120, 40)),
}


def load_size() -> int:
    """Bytes of all files that the page asks for."""
    with Browser() as browser:
        browser.open(PAGE)
        return sum(Path(address.removeprefix("file://")).stat().st_size for address in browser.requests())


def answers(preset: str, selector: str, by: tuple[float, float], num: int) -> tuple[float, list[float]]:
    """Busy milliseconds of an event of a drag, and for each the time until the frame that shows its effect."""
    with Browser() as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=PROBE)
        browser.open(PAGE)
        browser.evaluate(f"document.querySelector('[data-preset={preset}]').click()")
        browser.settle()
        browser.drag(browser.center(selector), by, num)  # the first pass is the compiler's
        start = browser.center(selector)
        browser.evaluate("window.answers.length = 0")
        before = busy(browser)
        browser.drag(start, (-by[0], -by[1]), num)
        return (busy(browser) - before) / num, list(browser.evaluate("window.answers"))


def busy(browser: Any) -> float:
    """Milliseconds of processor time that the main thread of the page has used, by the kernel's own count."""
    found = browser.call_browser("SystemInfo.getProcessInfo")["processInfo"]
    pages = [one["id"] for one in found if one["type"] == "renderer"]
    return sum(int(Path(f"/proc/{page}/schedstat").read_text().split()[0]) for page in pages) / 1e6


def report(size: int, times: dict[str, tuple[float, list[float]]]) -> str:
    """The page of results."""
    rows = [
        f"| {name} | {mean:.1f} | {statistics.median(found):.0f} | {max(found):.0f} |"
        for name, (mean, found) in times.items()
    ]
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return "\n".join(
        [
            "# Explorer: load and answers to drags",
            "",
            f"`python -m benchmarks.speed.site` on {processor}, {os.cpu_count()} cores, Chromium without a GPU.",
            f"The load average was {os.getloadavg()[0]:.1f}: answer times include the wait for a processor, busy times "
            f"do not.",
            "",
            f"The page loads {size / 1000:.0f} kB in all (wanted: under 300 kB), uncompressed and without a network.",
            "",
            "Milliseconds for one event of a drag (wanted: an answer in under 50):",
            "",
            "| drag | busy, mean | answer, median | answer, largest |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num", type=int, default=40, help="events of each drag")
    options = parser.parse_args(arguments)
    text = report(load_size(), {name: answers(*drag, options.num) for name, drag in DRAGS.items()})
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
