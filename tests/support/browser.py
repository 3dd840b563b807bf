"""Headless Chromium: loads pages, presses keys, moves the mouse, takes screenshots.

It is controlled with the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/) through a pair of
pipes, in real time, so that the time from a click to the next drawn frame can be measured.

    with Browser(directory) as browser:
        browser.open("file:///tmp/flamegraph.svg", dark=True)
        browser.press("/", "m", "a", "i", "n", "Enter")
        browser.evaluate("document.title")
        browser.screenshot("picture.png")
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

import process_group

# The shell has the same engine without the rest of a browser, and needs a third of the processor time for a short page.
PROGRAM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser",
                                               "google-chrome"))), None)
# All pages in one process: a new process for every page needs some 0.1 s of processor time more. Not for measuring how
# long a page takes to load.
ONE_PROCESS = ("--renderer-process-limit=1", "--disable-features=IsolateOrigins,site-per-process,BackForwardCache")
TIMEOUT_S = 120  # of an answer, and until a page is loaded
ALT, SHIFT = 1, 8  # of `modifiers`
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "Home": (36, ""), "End": (35, ""),
        "PageUp": (33, ""),
        "PageDown": (34, ""), "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""),
        "ArrowDown": (40, "")}


class Browser:
    def __init__(self, directory, width=1400, height=900, options=()):
        """`directory`: for the browser's files. `options`: of its command line."""
        to_browser, self.input = os.pipe()
        self.output, from_browser = os.pipe()

        def take_descriptors():
            # The browser reads descriptor 3 and writes 4, which may be in use by the pipes themselves.
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = process_group.start(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--allow-file-access-from-files", f"--user-data-dir={directory}/browser",
             f"--window-size={width},{height}", *options, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=take_descriptors)
        os.close(to_browser)
        os.close(from_browser)
        self.size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.number = 0
        self.buffer = b""
        self.session = None
        self.errors = []  # what the page reported: exceptions, and all messages that the console shows by default
        self.loaded = set()  # of each document that is loaded, its number (loaderId)
        self.page = "about:blank"  # the address of the document that is shown
        try:
            self.session = self.call("Target.attachToTarget", targetId=self._first_page(), flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call("Page.setLifecycleEventsEnabled", enabled=True)
            self.call("Performance.enable", timeDomain="threadTicks")
            self.call("Emulation.setDeviceMetricsOverride", **self.size)
        except BaseException:
            self.close()
            raise

    def _first_page(self):
        """The target of about:blank, which the browser may open later than it gives its first answer."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return target["targetId"]
            time.sleep(0.01)
        raise TimeoutError(f"the browser has no page within {TIMEOUT_S} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        process_group.end(self.process)
        os.close(self.input)
        os.close(self.output)

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.output], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.output, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(message)
        if message.get("method") == "Page.lifecycleEvent" and message["params"]["name"] == "load":
            self.loaded.add(message["params"]["loaderId"])
        elif message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] != "verbose":
            entry = message["params"]["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')[:300]}")
        elif message.get("method") == "Runtime.consoleAPICalled":
            call = message["params"]
            texts = [str(value.get("value", value.get("description", value["type"]))) for value in call["args"]]
            self.errors.append(f"console.{call['type']}: {' '.join(texts)[:300]}")
        return message

    def call(self, method, timeout=TIMEOUT_S, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.input, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer = self._receive(deadline)
            except TimeoutError:
                raise TimeoutError(f"{method}: no answer of the browser within {timeout} s") from None
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def set_dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address, dark=False, timeout=TIMEOUT_S):
        self.set_dark(dark)
        # An address that differs only in its fragment is not loaded again, unless another page was between.
        page = address.partition("#")[0]
        for step in ("about:blank", address) if self._is_address_of_document(page) else (address,):
            document = self.call("Page.navigate", url=step).get("loaderId")
            # None: only the fragment is another one. The event of the document before may come as late as it likes.
            self._wait_for_load(lambda document=document: document is None or document in self.loaded, step, timeout)
        self.page = page

    def _is_address_of_document(self, page):
        """The page of `serve` removes the query with the token from its address, and is loaded again with it."""
        return page == self.page and \
            ("?" not in page or "?" in self.call("Page.getFrameTree")["frameTree"]["frame"]["url"])

    def reload(self, timeout=TIMEOUT_S):
        before = self.loaded | {self.call("Page.getFrameTree")["frameTree"]["frame"]["loaderId"]}
        self.call("Page.reload")
        self._wait_for_load(lambda: self.loaded - before, self.page, timeout)

    def _wait_for_load(self, is_loaded, address, timeout):
        deadline = time.monotonic() + timeout
        while not is_loaded():
            try:
                self._receive(deadline)
            except TimeoutError:
                raise TimeoutError(f"{address} is not loaded within {timeout} s") from None

    def evaluate(self, expression, timeout=TIMEOUT_S):
        """The value of a JavaScript expression; waits for promises."""
        result = self.call("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def controls(self):
        """What a screen reader is told of the page's controls: [(role, name)]."""
        roles = ("button", "link", "checkbox", "radio", "combobox", "listbox", "textbox", "searchbox", "spinbutton",
                 "slider", "menuitem", "tab")
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes
                if not node["ignored"] and node.get("role", {}).get("value") in roles]

    def settle(self):
        """Waits until all changes are drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def cost_ms(self, expression):
        """Processor time of the page's thread for the expression and for drawing its changes."""
        before = self.spent_ms()
        self.evaluate(expression)
        self.settle()
        return self.spent_ms() - before

    def spent_ms(self):
        """Processor time of the page's thread so far."""
        return 1000 * next(metric["value"] for metric in self.call("Performance.getMetrics")["metrics"]
                           if metric["name"] == "TaskDuration")

    def press(self, *keys, modifiers=0):
        for key in keys:
            code, text = KEYS.get(key, (0, key))
            about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
            self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y, modifiers=0):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1,
                      modifiers=modifiers)

    def touch(self, x, y):
        """Puts a finger on the screen, until lift()."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])

    def lift(self):
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def drag(self, start, end, steps=8):
        """Moves the mouse from one (x, y) to another with the left button pressed."""
        self.move(*start)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def screenshot(self, path, area=None):
        """`area`: (x, y, width, height) of the page; by default, the window."""
        self.settle()
        clip = {"clip": dict(zip(("x", "y", "width", "height"), area), scale=1)} if area else {}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))
