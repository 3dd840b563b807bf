"""Firefox without a screen, controlled by its remote protocol Marionette: opens a page, evaluates scripts in it, and
returns what the console has.

    with marionette.Firefox(folder) as firefox:
        firefox.open("file:///tmp/report.html")
        print(firefox.evaluate("return document.title"), firefox.console())
"""

import json
import os
import shutil
import socket
import subprocess
import time

import process_group

PROGRAM = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)


class Firefox:
    def __init__(self, directory):
        """`directory`: for the browser's profile."""
        profile = directory / "firefox"
        profile.mkdir()
        # Port 0: Firefox takes a free one, and writes it to a file of the profile. No page is shown before the first one,
        # and no processes start for further ones.
        (profile / "user.js").write_text('user_pref("marionette.port", 0);\n'
                                         'user_pref("browser.shell.checkDefaultBrowser", false);\n'
                                         'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
                                         'user_pref("browser.startup.page", 0);\n'
                                         'user_pref("browser.newtabpage.enabled", false);\n'
                                         'user_pref("browser.aboutwelcome.enabled", false);\n'
                                         'user_pref("dom.ipc.processPrelaunch.enabled", false);\n')
        self.process = process_group.start([PROGRAM, "--headless", "--no-remote", "--marionette",
                                            "--remote-allow-system-access", "--profile", profile],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL,
                                           env={**os.environ, "HOME": str(directory),
                                                "MOZ_DISABLE_CONTENT_SANDBOX": "1"})
        self.number = 0
        self.buffer = b""
        self.connection = None
        try:
            self.connection = self._connect(profile / "MarionetteActivePort")
            self._message()  # the greeting
            self.call("WebDriver:NewSession")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.connection:
            self.connection.close()
        process_group.end(self.process)

    def _connect(self, port_file):
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"Firefox ended with status {self.process.returncode}")
            try:
                return socket.create_connection(("127.0.0.1", int(port_file.read_text())), timeout=100)
            except (OSError, ValueError):
                time.sleep(0.1)
        raise TimeoutError("Firefox does not answer")

    def _message(self):
        """A message is its length in bytes, a colon, and JSON."""
        while b":" not in self.buffer:
            self._receive()
        length, _, self.buffer = self.buffer.partition(b":")
        while len(self.buffer) < int(length):
            self._receive()
        message, self.buffer = self.buffer[:int(length)], self.buffer[int(length):]
        return json.loads(message)

    def _receive(self):
        piece = self.connection.recv(1 << 16)
        if not piece:
            raise RuntimeError("Firefox is gone")
        self.buffer += piece

    def call(self, command, **parameters):
        self.number += 1
        request = json.dumps([0, self.number, command, parameters]).encode()
        self.connection.sendall(b"%d:%s" % (len(request), request))
        _, _, error, result = self._message()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def open(self, address):
        self.call("WebDriver:Navigate", url=address)

    def evaluate(self, script):
        """The value that the function body `script` returns."""
        return self.call("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def console(self, about):
        """The messages about addresses that begin with `about`: errors of scripts, of styles and of the security
        policy, and what scripts print."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            messages = self.evaluate("return Services.console.getMessageArray().map(message => String(message))")
        finally:
            self.call("Marionette:SetContext", value="content")
        return [message for message in messages if about in message]
