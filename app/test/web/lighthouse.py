"""lighthouse.py - the ratings of the pages by Lighthouse, which npm provides."""

import json
import os
import subprocess

import harness

VERSION = "12.8.2"
PLACE = "var/lighthouse"
COMMAND = f"{PLACE}/node_modules/.bin/lighthouse"
PERFECT = ("accessibility", "best-practices", "seo")
SHIFT_MAX = 0.1
SCREENS = ("mobile", "desktop")


def fetch():
    """Install Lighthouse if it is missing. Returns whether it is installed."""
    if os.path.exists(f"{PLACE}/{VERSION}"):
        return True
    os.makedirs(PLACE, exist_ok=True)
    try:
        got = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", PLACE,
                              f"lighthouse@{VERSION}"], capture_output=True, timeout=600, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    if got.returncode == 0:
        with open(f"{PLACE}/{VERSION}", "w"):
            pass
    return got.returncode == 0


def rate(world, path, screen):
    preset = ["--preset=desktop"] if screen == "desktop" else []
    told = harness.run(COMMAND, world.url + path, "--quiet", "--output=json", "--no-enable-error-reporting", *preset,
                       "--chrome-flags=--headless=new --no-sandbox --disable-dev-shm-usage", env={
                           **os.environ, "CHROME_PATH": "/usr/bin/chromium"})
    return json.loads(told)


def assert_rating(world, path, screen):
    """Check only what does not depend on the speed of the machine."""
    told = rate(world, path, screen)
    scores = {name: round(100 * each["score"]) for name, each in told["categories"].items()}
    shift = told["audits"]["cumulative-layout-shift"]["numericValue"]
    paint_s = told["audits"]["largest-contentful-paint"]["numericValue"] / 1000
    print(f"Lighthouse {VERSION}: {path}, {screen}: layout shift {shift:.3f}, largest paint {paint_s:.2f} s, "
          + ", ".join(f"{name} {score}" for name, score in scores.items()))
    failed = {name: each.get("details", {}).get("items") for name, each in told["audits"].items()
              if each["score"] is not None and each["score"] < 1 and any(
                  ref["id"] == name for part in PERFECT for ref in told["categories"][part]["auditRefs"])}
    assert [scores[name] for name in PERFECT] == [100] * len(PERFECT), json.dumps(failed, indent=1)
    assert shift < SHIFT_MAX, json.dumps(told["audits"]["layout-shifts"]["details"], indent=1)


def test_lighthouse__finds_nothing_to_mend_in_the_shop(world):
    for begin_at in (-60, -60, -60, 3600, 7200):
        world.voucher(begin_at=harness.moment(begin_at), end_at=harness.moment(9000))
    for screen in SCREENS:
        assert_rating(world, "/", screen)


def test_lighthouse__finds_nothing_to_mend_in_the_dashboard(world):
    for screen in SCREENS:
        assert_rating(world, "/admin", screen)
