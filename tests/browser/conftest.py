"""A real Chromium before the inspector of a bank, on both backends.

`LOREBANK_CHROMIUM` names the browser (else `chromium` of the path), `LOREBANK_AXE` axe-core's `axe.min.js`. Without a browser
these tests are skipped; where one is named that is not there, they fail.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from lorebank import Bank, open_bank
from lorebank.inspector.app import inspector
from lorebank.inspector.guard import Keys
from lorebank.testing import FaultServer

selenium = pytest.importorskip("selenium", reason="needs selenium: pip install 'lorebank[dev]'")

from selenium import webdriver  # noqa: E402 - after the check
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys as Press  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER = os.environ.get("LOREBANK_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("LOREBANK_CHROMEDRIVER") or shutil.which("chromedriver")
PATIENCE = 20.0
SWITCHES = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900")
QUICK: dict[str, Any] = {"batch_seconds": 0.02, "max_backoff": 0.2}
SETTINGS: dict[str, Any] = {"recall": {"keep_traces": 3, "deadline": 30}, "mental_models": {"enabled": False}}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def serving(app: Any, port: int) -> Iterator[None]:
    """An ASGI application on a port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    yield
    server.should_exit = server.force_exit = True
    thread.join(PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    """The browser, one for all tests of this process."""
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver, or LOREBANK_CHROMIUM")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    driver.set_page_load_timeout(PATIENCE)
    yield driver
    driver.quit()


@dataclass
class Reader:
    """A person at the browser: opens pages, reads, types, presses keys."""

    driver: webdriver.Chrome
    bank: Bank
    keys: Keys
    home: str
    line: FaultServer | None = None

    def open(self, path: str = "/") -> None:
        self.driver.get(f"{self.home}{path}")

    @property
    def text(self) -> str:
        """What the page shows."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    @property
    def path(self) -> str:
        return self.driver.current_url.removeprefix(self.home)

    @property
    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def find(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def labelled(self, label: str) -> WebElement:
        """The control of a label."""
        [found] = [each for each in self.all("label") if each.text == label]
        return self.find(f"#{found.get_attribute('for')}")

    def named(self, name: str, css: str = "button, a") -> WebElement:
        """The first button or link whose name begins so."""
        return next(each for each in self.all(css) if (each.accessible_name or "").startswith(name))

    def activate(self, name: str) -> None:
        """Presses a button or a link by the keyboard, and waits for the page that follows."""
        control = self.named(name)
        self.follow(lambda: control.send_keys(Press.ENTER))

    def follow(self, act: Callable[[], object]) -> None:
        """Does something that leads to another page, and waits until that is there."""
        before = self.find("html")
        act()
        WebDriverWait(self.driver, PATIENCE).until(lambda _: self._left(before))

    def _left(self, before: WebElement) -> bool:
        return self.find("html") != before and self.run("return document.readyState") == "complete"

    def press(self, *keys: str) -> None:
        """Presses keys wherever the focus is."""
        for key in keys:
            self.focused.send_keys(key)

    def tab_to(self, name: str, most: int = 60) -> None:
        """Presses Tab until a control of this name has the focus."""
        for _ in range(most):
            self.press(Press.TAB)
            if (self.focused.accessible_name or "").startswith(name):
                return
        raise AssertionError(f"{name!r} can't be reached by Tab")

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def command(self, name: str, **values: object) -> Any:
        """A command of the browser's own protocol."""
        return self.driver.execute_cdp_cmd(name, values)

    def told(self, *texts: str, **fields: Any) -> list[str]:
        """Tells the bank something; gives the ids."""
        self.bank.retain([{"content": text, **fields} for text in texts])
        assert self.bank.flush(timeout=60, until="completed").done
        known = {memory.text: memory.id for memory in self.bank.list(types=("world", "experience"), limit=1000)}
        return [known[text] for text in texts]


class Rig:
    """Opens inspectors for one test."""

    def __init__(self, driver: webdriver.Chrome, stack: ExitStack, folder: Path) -> None:
        self.driver, self.stack, self.folder = driver, stack, folder

    def reader(self, url: str | None = None, *, bank: str = "alice", line: FaultServer | None = None, **options: Any) -> Reader:
        """The inspector of a bank, in the browser, entered by the URL with its token."""
        file = f"sqlite:///{self.folder / 'memory.db'}"
        given = {"bank": bank, **SETTINGS, **options}
        opened = open_bank(file, **given) if url is None else open_bank(url, ledger=file, outbox=QUICK, **given)
        self.stack.enter_context(opened)
        port, keys = free_port(), Keys()
        self.stack.enter_context(serving(inspector(opened, keys, port), port))
        reader = Reader(self.driver, opened, keys, f"http://127.0.0.1:{port}", line)
        reader.open(f"/?token={keys.token}")
        return reader


@pytest.fixture
def rig(chromium: webdriver.Chrome, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(chromium, stack, tmp_path)
        chromium.get("about:blank")
        chromium.delete_all_cookies()
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    for kind in ("browser", "performance"):
        chromium.get_log(kind)


@pytest.fixture
def local(rig: Rig) -> Reader:
    """The inspector of an empty bank on Mnemopi."""
    return rig.reader()


@pytest.fixture
def served(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """The inspector of a bank of the test's own on the real server, over a line that can fail."""
    upstream, name = request.getfixturevalue("hindsight").url, f"browser-{uuid.uuid4().hex[:12]}"
    line = rig.stack.enter_context(FaultServer(upstream=upstream))
    yield rig.reader(line.url, bank=name, line=line)
    with suppress(httpx.HTTPError):
        httpx.delete(f"{upstream}/v1/default/banks/{name}", timeout=60)


@pytest.fixture(params=["mnemopi", "hindsight"])
def reader(request: pytest.FixtureRequest) -> Reader:
    """The inspector on Mnemopi, and on the real server."""
    found: Reader = request.getfixturevalue("local" if request.param == "mnemopi" else "served")
    return found


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's source."""
    named = os.environ.get("LOREBANK_AXE")
    if named is None:
        pytest.skip("needs axe-core: npm pack axe-core@4, and LOREBANK_AXE=.../package/axe.min.js")
    return Path(named).read_text(encoding="utf-8")
