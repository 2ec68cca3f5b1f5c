"""browser.py - Debian's Chromium without a window, through its WebDriver."""

import base64
import contextlib
import os
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

PHONE = (390, 844)
NARROW = (320, 640)
DESK = (1280, 900)
DEADLINE_S = 120 # limit of a wait for a condition

# Runs before any script of the page. Records the keys that the button sends.
WATCH = """
window.keysSent = [];
const asked = window.fetch;
window.fetch = (path, options) => {
    const key = options?.headers?.['Idempotency-Key'];
    if (key) window.keysSent.push(key);
    return asked(path, options);
};"""


class Browser:
    def __init__(self, screens, language="en-US", size=DESK, dark=False):
        self.screens = screens
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                         "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
                         "--host-resolver-rules=MAP shop.test 127.0.0.1", f"--lang={language}"):
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"intl.accept_languages": language})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.driver.set_script_timeout(DEADLINE_S)
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.resize(size)
        self.be_dark(dark)

    def quit(self):
        self.driver.quit()

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def resize(self, size):
        self.cdp("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                 deviceScaleFactor=1, mobile=size[0] < 600)

    def be_dark(self, dark):
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    @contextlib.contextmanager
    def blocked(self, pattern):
        """Make requests to addresses of this pattern fail until the `with` block ends."""
        self.cdp("Network.enable")
        self.cdp("Network.setBlockedURLs", urls=[pattern])
        try:
            yield
        finally:
            self.cdp("Network.setBlockedURLs", urls=[])

    @contextlib.contextmanager
    def early(self, script):
        """Until the `with` block ends, run a script in each new page before the scripts of the
        page."""
        added = self.cdp("Page.addScriptToEvaluateOnNewDocument", source=script)
        try:
            yield
        finally:
            self.cdp("Page.removeScriptToEvaluateOnNewDocument", **added)

    def open(self, url, afresh=True):
        """Open a page. If `afresh` is true, first remove the data of earlier visits."""
        if afresh:
            self.driver.get(url + "/healthz")
            self.js("localStorage.clear(); sessionStorage.clear()")
        self.driver.get(url)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        """Wait for an element, and return it."""
        return self.wait(selector, lambda: next(iter(self.all(selector)), None))

    def text(self, selector):
        found = self.all(selector)
        return found[0].text if found else ""

    def wait(self, what, condition):
        """Wait until the condition is true, and return its value."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                value = condition()
            except StaleElementReferenceException:
                value = None
            if value:
                return value
            assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
            time.sleep(0.1)

    def wait_text(self, selector, part):
        try:
            self.wait(f"{part!r} in {selector}", lambda: part in self.text(selector))
        except AssertionError as failure:
            raise AssertionError(f"{failure}; there is {self.text(selector)!r}") from None

    def screenshot(self, name, height=None):
        """Save a picture of the page from its top. Without a height, the picture shows the whole
        page."""
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1})
        with open(f"{self.screens}/{name}.png", "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def complaints(self):
        """The errors on the console. Answers that are no success are left out, because tests cause
        them."""
        return [line["message"] for line in self.driver.get_log("browser")
                if line["level"] == "SEVERE" and line["source"] != "network"]
