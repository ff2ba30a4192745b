"""A headless Chromium, spoken to over its pipe: pages opened, scripts run in them, what they ask of the network."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image

PROGRAM = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--mute-audio"),
    *("--remote-debugging-pipe", "--disable-background-networking", "--force-color-profile=srgb"),
)


class Tab:
    """A page in the browser.

    Attributes:
        requests: addresses that were asked for.
        complaints: errors and warnings on the console, and exceptions.
    """

    def __init__(self, browser: Browser):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests: list[str] = []
        self.complaints: list[str] = []
        browser.tabs[self._session] = self
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params):
        return self._browser.call(method, self._session, **params)

    def hears(self, method: str, params: dict) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def show(
        self, width: int, height: int, density: float = 1.0, is_dark: bool = False, is_phone: bool = False
    ) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": density, "mobile": is_phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Opens a page, and waits until it plays or has said why not."""
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.call("Page.navigate", url=url)
        self.run("""new Promise((done) => {
            const trouble = () => document.getElementById("trouble")?.textContent;
            const isReady = () => !globalThis.Puffer || globalThis.puffer || !/begins in a moment/.test(trouble());
            const look = () => document.readyState === "complete" && isReady() ? done() : setTimeout(look, 10);
            look();
        })""")

    def run(self, expression: str):
        """The value of JavaScript, which may be a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def picture(self) -> np.ndarray:
        """What its screen shows, `(height, width, 3)`."""
        url = self.run("document.getElementById('screen').toDataURL()")
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))

    def screenshot(self, path: str) -> None:
        data = self.call("Page.captureScreenshot")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


class Browser:
    """The process."""

    def __init__(self, folder: str):
        to_read, self._to_write = os.pipe()
        self._to_read, to_write = os.pipe()
        command = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", PROGRAM, *FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._text, self._number = b"", 0
        self.tabs: dict[str, Tab] = {}

    def call(self, method: str, session: str | None = None, **params):
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._to_write, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, (method, heard["error"])
                return heard["result"]
            if heard.get("sessionId") in self.tabs:
                self.tabs[heard["sessionId"]].hears(heard["method"], heard["params"])

    def _hear(self) -> dict:
        while b"\0" not in self._text:
            read = os.read(self._to_read, 1 << 20)
            assert read, "the browser ended"
            self._text += read
        message, _, self._text = self._text.partition(b"\0")
        return json.loads(message)

    def close(self) -> None:
        self.call("Browser.close")
        self._process.wait(60)
        os.close(self._to_write)
        os.close(self._to_read)


@contextmanager
def open_browser(folder: str) -> Iterator[Tab]:
    """A tab of a browser that keeps its files in a folder."""
    browser = Browser(folder)
    try:
        yield Tab(browser)
    finally:
        browser.close()
