"""The report in headless Chromium: no console error, no request leaves the page, figures visible, no overflow.

Chromium is spoken to over its debugging pipe (NUL-separated JSON on file descriptors 3 and 4), so the test needs
no package. Without Chromium it is skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.faults.case import FaultCase, case_run
from slurmtwin_reports.html import Report, Section, write_report
from slurmtwin_reports.judge import judge_pairs, make_report
from slurmtwin_reports.load import load_run
from slurmtwin_reports.testing import queue_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium to open the report"),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One Chromium and one page in it."""

    def __init__(self, profile: Path) -> None:
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"]
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command], pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.rest, self.last, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = os.read(self.read, 1 << 16)
            if not part:
                raise RuntimeError("chromium has gone")
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, path: Path, width: int, dark: bool = False) -> None:
        """Load a file at a screen width and wait until it is there."""
        self.events.clear()
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message())

    def value(self, script: str) -> Any:
        """The value of a script in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def errors(self) -> list[str]:
        """Console errors, uncaught exceptions and log entries of level error or warning."""
        bad = {
            "Runtime.exceptionThrown": lambda params: True,
            "Runtime.consoleAPICalled": lambda params: params["type"] in ("error", "assert", "warning"),
            "Log.entryAdded": lambda params: params["entry"]["level"] in ("error", "warning"),
        }
        return [json.dumps(e) for e in self.events if (is_bad := bad.get(e.get("method", ""))) and is_bad(e["params"])]

    def requests(self) -> list[str]:
        """Every URL the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def close(self) -> None:
        """End the browser this test started."""
        self.process.terminate()
        self.process.wait(20)
        os.close(self.read)
        os.close(self.write)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenarios with figures, one of them with findings and a long name."""
    sections = []
    for name, noise in (("serial", 0.1), ("a-scenario-with-a-rather-long-name-that-must-wrap-somewhere", 20.0)):
        real = [queue_run(150, scenario=name, world="slurm", noise_s=noise, noise_seed=i) for i in range(3)]
        sections.append(judge_pairs([(queue_run(150, scenario=name), r) for r in real], title="a queue of 150 jobs"))
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, make_report("slurmtwin check", sections))
    return path


FIGURES = """
[...document.querySelectorAll('svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('.line,.block,.shade')].map(m => m.getBoundingClientRect());
  const drawn = svg.checkVisibility() && marks.some(m => m.width > 40 && m.height > 20);
  return {width: box.width, height: box.height, drawn};
})
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("width", [390, 1280])
def test_lanes_scroll_in_their_box_and_phases_fit(browser: Browser, tmp_path: Path, width: int) -> None:
    """A fault scenario's timeline keeps its size and scrolls on a phone; the page itself never overflows."""
    phases = load_scenario("scenarios/faults/x64-worker-host-lost.yaml").expect.phases
    folders = sorted(Path("scenarios/recordings/x64-worker-host-lost").glob("*/pods/*/manifest.json"))
    runs = [case_run(load_run(p.parent), phases, f"real {i}") for i, p in enumerate(folders, 1)]
    path = tmp_path / "fault.html"
    write_report(path, Report("r", [Section("x64", fault=FaultCase(phases, runs))]))
    browser.open(path, width)
    sizes = browser.value(
        "['svg.lanes', 'svg.phases'].map(s => document.querySelector(s).getBoundingClientRect().width)"
    )
    assert browser.errors() == []
    assert browser.requests() == [path.as_uri()]
    assert sizes[0] >= 700
    assert sizes[1] <= width
    assert browser.value(OVERFLOW) <= 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 760, 1280])
def test_the_report_opens_clean(browser: Browser, report: Path, width: int, dark: bool) -> None:
    """On phone and desktop, light and dark: nothing logged, nothing fetched, all figures drawn, no page overflow."""
    browser.open(report, width, dark)
    figures = browser.value(FIGURES)
    assert browser.errors() == []
    assert browser.requests() == [report.as_uri()]
    assert len(figures) == 12
    assert all(f["drawn"] and f["width"] > 250 and f["height"] > 100 for f in figures)
    assert browser.value(OVERFLOW) <= 0


def test_print_shows_what_is_folded_away(browser: Browser, report: Path) -> None:
    """On paper a closed section is open, and nothing scrolls."""
    browser.open(report, 1000)
    browser.value("document.querySelectorAll('details').forEach(d => { d.open = false })")
    assert not any(f["drawn"] for f in browser.value(FIGURES))
    browser.call("Emulation.setEmulatedMedia", media="print")
    figures = browser.value(FIGURES)
    browser.call("Emulation.setEmulatedMedia", media="")
    assert all(f["drawn"] for f in figures)


def test_wide_tables_scroll_inside_their_box(browser: Browser, report: Path) -> None:
    """At 390 px some table is wider than its box, and the box scrolls it."""
    browser.open(report, 390)
    boxes = browser.value(
        "[...document.querySelectorAll('.box')].map("
        "b => [b.scrollWidth - b.clientWidth, getComputedStyle(b).overflowX])"
    )
    assert any(hidden > 0 for hidden, _ in boxes)
    assert all(overflow == "auto" for hidden, overflow in boxes if hidden > 0)


def test_a_link_in_the_verdict_table_opens_its_section(browser: Browser, report: Path) -> None:
    """Following a link to a closed section shows its figures."""
    browser.open(report, 1280)
    script = """new Promise(done => {
      const link = [...document.querySelectorAll('td a, th a')].pop();
      const section = document.querySelector(link.getAttribute('href'));
      section.closest('details').open = false;
      link.click();
      setTimeout(() => done(section.closest('details').open && section.getBoundingClientRect().height > 200), 300);
    })"""
    assert browser.value(script) is True


def test_text_and_background_are_told_apart(browser: Browser, report: Path) -> None:
    """Dark mode changes both colours."""
    look = "(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))"
    browser.open(report, 1280, dark=False)
    light = browser.value(look)
    browser.open(report, 1280, dark=True)
    dark = browser.value(look)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


BAD = {
    "console": "<script>console.error('planted')</script>",
    "exception": "<script>throw new Error('planted')</script>",
    "request": "<img src='file:///nowhere/planted.png'>",
}


@pytest.mark.parametrize("bug", list(BAD))
def test_the_detector_sees_planted_errors(browser: Browser, tmp_path: Path, bug: str) -> None:
    """A page that logs, throws or fetches does not pass for clean."""
    path = tmp_path / "bad.html"
    path.write_text(f"<!doctype html><title>t</title><body>{BAD[bug]}</body>", encoding="utf-8")
    browser.open(path, 390)
    browser.value("1")
    assert browser.errors() or browser.requests() != [path.as_uri()]


def test_the_detector_sees_planted_overflow(browser: Browser, tmp_path: Path) -> None:
    """A box of 800 px makes a page of 390 px overflow."""
    path = tmp_path / "wide.html"
    head = "<!doctype html><meta name=viewport content='width=device-width,initial-scale=1'><title>t</title>"
    path.write_text(f"{head}<div style='width:800px'>x</div>", encoding="utf-8")
    browser.open(path, 390)
    assert browser.value(OVERFLOW) > 0


def test_an_empty_report_opens_clean(browser: Browser, tmp_path: Path) -> None:
    """Nothing judged is a page too."""
    path = tmp_path / "empty.html"
    write_report(path, Report("nothing"))
    browser.open(path, 390)
    assert browser.errors() == []
    assert browser.value(OVERFLOW) <= 0
