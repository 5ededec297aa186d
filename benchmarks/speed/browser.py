"""Headless Chromium, driven over a pipe by the DevTools protocol: pages, real pointers and keys, screenshots.

Needs a `chromium` (or Chrome) on the path and no Python package. Used by `benchmarks/speed/site.py` and `tests/site`.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

KEYS = {
    "Tab": (9, "Tab"),
    "ArrowLeft": (37, "ArrowLeft"),
    "ArrowUp": (38, "ArrowUp"),
    "ArrowRight": (39, "ArrowRight"),
    "ArrowDown": (40, "ArrowDown"),
    "Home": (36, "Home"),
    "End": (35, "End"),
    " ": (32, "Space"),
}
"""Key codes that pages ask for."""


class Browser:
    """One page of a headless browser, as a context manager.

    Args:
        width: Of the window, in pixels.
        height: Of the window, in pixels.
        dark: Whether the reader prefers dark pages.
        touch: Whether the window is a phone's.
    """

    def __init__(self, width: int = 1280, height: int = 900, *, dark: bool = False, touch: bool = False):
        if EXECUTABLE is None:
            raise RuntimeError("no browser was found: install chromium.")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()

        def pipes() -> None:
            # Chromium reads commands from descriptor 3 and writes answers to 4; a copy keeps either from being lost.
            here, there = os.dup(commands), os.dup(answers)
            os.dup2(here, 3)
            os.dup2(there, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
        self.process = subprocess.Popen(
            [EXECUTABLE, *flags, f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=pipes,
            close_fds=False,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._counter, self._buffer, self.events = itertools.count(1), b"", []
        pages = [one for one in self.call_browser("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.call_browser("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self._read)
        os.close(self._write)
        self.profile.cleanup()

    def call(self, method: str, **params: Any) -> Any:
        """The page's answer to one command; events that arrive before it are kept in `events`."""
        return self._ask(method, params, {"sessionId": self.session})

    def call_browser(self, method: str, **params: Any) -> Any:
        """As `call`, for commands to the browser as a whole."""
        return self._ask(method, params, {})

    def _ask(self, method: str, params: dict[str, Any], session: dict[str, Any]) -> Any:
        number = next(self._counter)
        message = {"id": number, "method": method, "params": params, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, timeout: float = 60.0) -> Any:
        """The next message of the browser."""
        until = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"the browser did not answer within {timeout:.0f} seconds.")
            self._buffer += os.read(self._read, 1 << 20)
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until it has drawn itself."""
        before = self._num_loads()
        self.call("Page.navigate", url=page.resolve().as_uri() + fragment)
        while self._num_loads() == before:
            self.events.append(self._receive())
        self.settle()

    def _num_loads(self) -> int:
        return sum(one.get("method") == "Page.loadEventFired" for one in self.events)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", str(found)))
        return found["result"].get("value")

    def settle(self) -> None:
        """Wait until two frames have been drawn: the effect of the last input is on the screen."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def center(self, selector: str) -> tuple[float, float]:
        """The middle of an element, in pixels of the window, after it was scrolled into view."""
        x, y = self.evaluate(
            f"""(() => {{ const found = document.querySelector({selector!r});
            found.scrollIntoView({{ block: "center" }}); const box = found.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2]; }})()"""
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float) -> None:
        """One event of the mouse: `mousePressed`, `mouseMoved` or `mouseReleased`."""
        pressed = kind != "mouseReleased"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(pressed), clickCount=1)

    def drag(self, start: tuple[float, float], by: tuple[float, float], num: int = 10) -> None:
        """Press, move in `num` steps, and release."""
        (x, y), (dx, dy) = start, by
        self.mouse("mousePressed", x, y)
        for k in range(1, num + 1):
            self.mouse("mouseMoved", x + dx * k / num, y + dy * k / num)
            self.settle()
        self.mouse("mouseReleased", x + dx, y + dy)
        self.settle()

    def swipe(self, start: tuple[float, float], by: tuple[float, float], num: int = 10) -> None:
        """A finger that goes down, moves in `num` steps, and is lifted."""
        (x, y), (dx, dy) = start, by
        for k in range(num + 1):
            point = {"x": x + dx * k / num, "y": y + dy * k / num}
            self.call("Input.dispatchTouchEvent", type="touchMove" if k else "touchStart", touchPoints=[point])
            self.settle()
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def press(self, key: str, times: int = 1) -> None:
        """Press a key of the keyboard."""
        number, code = KEYS[key]
        for _ in range(times):
            event = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            text = {"text": " "} if key == " " else {}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def problems(self) -> list[str]:
        """Errors and warnings of the page so far."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Addresses that the page has asked for."""
        sent = (
            one["params"]["request"]["url"] for one in self.events if one.get("method") == "Network.requestWillBeSent"
        )
        return [address for address in sent if not address.startswith("data:")]

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write a picture of the page, all of it or only what the window shows."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))["data"]
        file.write_bytes(base64.b64decode(data))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
