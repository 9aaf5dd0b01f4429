"""What the pages are as web pages: reachable by keyboard, readable by everybody, closed to other sites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.responses import HTMLResponse

from lorebank import Item, Message

from .conftest import PATIENCE, Press, Reader, Rig, WebDriverWait, free_port, serving

PAGES = (
    "/?q=Ana+Boris",
    "/timeline",
    "/entities",
    "/models",
    "/model?id=seats",
    "/turns",
    "/session?id=monday",
    "/outbox",
)
MEMORY = ("/memory?id={}", "/memory/forget?id={}")
EVIL = "\u202e<b>Ana</b> met Boris in Lisbon."
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}}


def filled(reader: Reader) -> list[str]:
    """A bank with something on every page; gives the addresses of all pages."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    texts = ["then Ana met Boris in Lisbon.", "then Ana wrote to Boris.", "then Kofi paid Chloe in Porto.", EVIL]
    reader.bank.retain([Item(text, tags=["trip"], timestamp=start + timedelta(hours=9 * n)) for n, text in enumerate(texts)])
    known = reader.told("then Boris sent Chloe to Lisbon.", metadata={"turn": "D1:3"}, session="monday", speaker="Ana")[0]
    models = reader.bank.mental_models
    models.create("seats", name="Travels", source_query="Where has Ana been?")
    models.update("seats", content="Ana was in Lisbon.\nAna was in Porto.")
    with reader.bank.session("monday") as session:
        session.before_turn([Message("user", "Whom did Ana meet in Lisbon?")])
    gone = next(memory.id for memory in reader.bank.list() if memory.text == EVIL)
    reader.bank.invalidate(gone, replacement=known)
    return [*PAGES, *(path.format(known) for path in MEMORY), MEMORY[0].format(gone)]


@pytest.fixture
def full(local: Reader) -> tuple[Reader, list[str]]:
    return local, filled(local)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(full: tuple[Reader, list[str]], axe: str, scheme: str) -> None:
    """axe-core's rules of WCAG 2.2 AA and its best practices, on every page."""
    reader, paths = full
    reader.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    found: dict[str, Any] = {}
    for path in paths:
        reader.open(path)
        broken = violations(reader, axe)
        if broken:
            found[path] = broken
    assert found == {}


def violations(reader: Reader, axe: str) -> list[str]:
    """The rules that a page breaks, each with the first place where it does."""
    reader.run(f"{axe}; window.axe = axe;")
    script = "const [rules, done] = arguments; axe.run(document, rules).then(found => done(found.violations))"
    found = reader.driver.execute_async_script(script, RULES)
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found]


def test_axe_finds_what_is_wrong(local: Reader, axe: str) -> None:
    """A page with a field that nobody names is told of."""
    local.run("document.querySelector('label[for=q]').remove()")
    assert "label" in [each.split(":")[0] for each in violations(local, axe)]


def test_axe_finds_nothing_where_a_server_is_down(served: Reader, axe: str) -> None:
    """Its outbox with a dead letter and one that waits; what the other pages say instead."""
    from lorebank.testing import Fault

    assert served.line is not None
    served.line.fault(Fault(status=422), path="/memories$", method="POST")
    served.bank.retain("Ana prefers aisle seats.")
    served.bank.flush(timeout=30, until="completed")
    served.line.stop()
    served.bank.retain("Ana plays the cello.")
    served.open("/outbox")
    assert "1 dead letter" in served.text
    assert violations(served, axe) == []
    served.activate("Delete")
    assert violations(served, axe) == []
    for path in ("/?q=seats", "/timeline", "/memory?id=nosuch"):
        served.open(path)
        assert served.find("[role=alert]").text
        assert violations(served, axe) == []


def test_everything_can_be_done_by_the_keyboard_alone(local: Reader) -> None:
    """Search, open, correct, undo, forget: with Tab, Enter and letters."""
    [known] = local.told("Ana prefers aisle seats.")
    local.open("/turns")
    local.follow(lambda: local.press("/"))
    assert local.focused.get_attribute("id") == "q"
    local.press("Which seats does Ana prefer?")
    local.follow(lambda: local.press(Press.ENTER))
    local.tab_to("Ana prefers aisle seats.")
    local.follow(lambda: local.press(Press.ENTER))
    local.tab_to("What it should say")
    local.press(Press.CONTROL + "a" + Press.NULL, "Ana prefers the window.")
    local.tab_to("Correct")
    local.follow(lambda: local.press(Press.ENTER))
    assert local.bank.get(known).text == "Ana prefers the window."
    local.tab_to("Undo")
    local.follow(lambda: local.press(Press.ENTER))
    assert local.bank.get(known).text == "Ana prefers aisle seats."
    local.tab_to("Forget")
    local.follow(lambda: local.press(Press.ENTER))
    local.tab_to("Forget it for good")
    local.follow(lambda: local.press(Press.SPACE))
    assert local.bank.list() == ()


def test_the_first_tab_skips_the_menu(full: tuple[Reader, list[str]]) -> None:
    """And where the focus is can be seen."""
    reader, _ = full
    reader.open("/timeline")
    reader.press(Press.TAB)
    assert reader.focused.text == "Skip to the content"
    assert reader.focused.location["x"] >= 0
    reader.press(Press.ENTER)
    reader.press(Press.TAB)
    assert reader.focused.accessible_name == "Up to this day"
    assert reader.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_table_can_be_scrolled_by_the_keyboard(full: tuple[Reader, list[str]]) -> None:
    """Its region takes the focus and has a name."""
    reader, _ = full
    reader.command("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    reader.open("/?q=Ana+Boris")
    region = reader.find("[role=region]")
    assert (region.get_attribute("tabindex"), region.accessible_name) == ("0", "Memories found")
    region.send_keys(Press.ARROW_RIGHT * 5)
    WebDriverWait(reader.driver, PATIENCE).until(lambda _: reader.run("return arguments[0].scrollLeft > 0", region))


def test_no_page_is_wider_than_a_phone(full: tuple[Reader, list[str]]) -> None:
    """What is wider scrolls in its own region; no word is broken letter by letter."""
    reader, paths = full
    reader.command("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    wide = []
    for path in paths:
        reader.open(path)
        if reader.run("return document.documentElement.scrollWidth") > 400:
            wide.append(path)
    reader.open("/?q=Ana+Boris")
    assert min(each.size["width"] for each in reader.all("tbody td.text")) > 200
    assert wide == []


def test_the_pages_work_without_their_script(local: Reader) -> None:
    """Search, correct and undo are forms and links."""
    [known] = local.told("Ana prefers aisle seats.")
    local.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        local.open("/")
        local.labelled("What do you want to know?").send_keys("Which seats does Ana prefer?")
        local.follow(local.named("Search", "button").click)
        local.follow(local.named("Ana prefers aisle seats.").click)
        field = local.labelled("What it should say")
        field.clear()
        field.send_keys("Ana prefers the window.")
        local.follow(local.named("Correct", "button").click)
        assert "The memory is corrected." in local.text
        local.follow(local.named("Undo").click)
        assert local.bank.get(known).text == "Ana prefers aisle seats."
    finally:
        local.command("Emulation.setScriptExecutionDisabled", value=False)


def test_nothing_is_asked_of_anybody_else(full: tuple[Reader, list[str]]) -> None:
    """Every request of every page goes to the inspector; the browser complains of nothing."""
    reader, paths = full
    reader.driver.get_log("performance")
    for path in paths:
        reader.open(path)
    asked = list(requests(reader))
    assert len(asked) > len(paths)
    assert [url for url in asked if not url.startswith((f"{reader.home}/", "data:"))] == []  # the browser's own icons are data
    assert [each["message"] for each in reader.driver.get_log("browser")] == []


def requests(reader: Reader) -> Iterator[str]:
    """The addresses that the browser has asked for."""
    for entry in reader.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def test_the_token_leaves_the_address(local: Reader) -> None:
    """It is in no page, in no history entry, and scripts can't read the cookie."""
    assert local.path == "/"
    assert local.keys.token not in local.driver.page_source
    assert local.run("return document.cookie") == ""
    local.driver.delete_all_cookies()
    local.open("/timeline")
    assert "Locked" in local.text


def test_another_site_can_neither_act_nor_frame(local: Reader, rig: Rig) -> None:
    """It sends a form with the browser's help, and shows the pages in a frame: both are refused."""
    [known] = local.told("Ana prefers aisle seats.")
    page = f"""<iframe src="{local.home}/timeline"></iframe><form method="post" action="{local.home}/memory/forget">
        <input name="id" value="{known}"><input name="form" value="{local.keys.form}"><button>go</button></form>"""
    port = free_port()
    rig.stack.enter_context(serving(HTMLResponse(page), port))
    local.driver.get(f"http://127.0.0.1:{port}/")
    local.driver.switch_to.frame(0)
    assert "aisle" not in local.driver.page_source
    local.driver.switch_to.default_content()
    local.follow(lambda: local.find("button").click())
    assert local.bank.get(known).text == "Ana prefers aisle seats."


def test_a_memory_can_t_steer_the_page(full: tuple[Reader, list[str]]) -> None:
    """Markup is text, and a sign that turns the direction is named."""
    reader, _ = full
    reader.open("/timeline?state=all")
    assert "U+202E<b>Ana</b> met Boris in Lisbon." in reader.text
    assert reader.all(".timeline b") == []


def test_the_timeline_goes_on(local: Reader) -> None:
    """By its links, and to a day."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    local.bank.retain([Item(f"Number {n:03}.", timestamp=start + timedelta(hours=n)) for n in range(60)])
    local.activate("Timeline")
    assert "Number 059." in local.text
    local.activate("Older memories")
    assert ("Number 009." in local.text, "Number 010." in local.text) == (True, False)
    local.activate("Newest")
    local.run("document.getElementById('day').value = '2026-03-01'")
    local.follow(lambda: local.named("Show", "button").click())
    assert local.all("h2")[0].text == "Sunday, 01 March 2026"


def test_a_name_leads_to_what_is_known_of_it(full: tuple[Reader, list[str]]) -> None:
    """From the table; the picture shows the same names."""
    reader, _ = full
    reader.activate("Entities")
    drawn = {each.text for each in reader.all("svg.graph text")}
    listed = {each.text for each in reader.all("tbody th")}
    assert drawn == listed
    reader.activate("Kofi")
    assert "then Kofi paid Chloe in Porto." in reader.find("tbody tr").text


def test_a_mental_model_shows_what_changed(full: tuple[Reader, list[str]]) -> None:
    """Line by line."""
    reader, _ = full
    reader.activate("Mental models")
    reader.activate("Travels")
    assert "+ Ana was in Porto." in [each.text for each in reader.all("ins")]


def test_a_turn_shows_what_was_injected(full: tuple[Reader, list[str]]) -> None:
    """From the list of conversations to the memories and their scores."""
    reader, _ = full
    reader.activate("Turns")
    reader.activate("monday")
    assert "Whom did Ana meet in Lisbon?" in reader.text
    assert "then Boris sent Chloe to Lisbon." in reader.find("tbody tr").text
