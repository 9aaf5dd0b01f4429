"""The documentation builds without a warning, and its pages load nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {path.stem for path in (ROOT / "docs").glob("*.md")}
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Its configuration is strict: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_every_page_is_there_and_found_from_the_first(site: Path) -> None:
    """In the navigation of the start page."""
    start = (site / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="(?:\./)?([\w-]+)/"', start))
    assert PAGES - {"index"} <= linked
    assert len(list((site / "cookbook").glob("[0-9]*/index.html"))) == len(list((ROOT / "cookbook").glob("[0-9]*.py")))


def test_a_link_to_a_recipe_leads_to_its_page(site: Path) -> None:
    """A page is read in the repository, too, where the same link leads to the script."""
    page = (site / "sessions" / "index.html").read_text(encoding="utf-8")
    assert 'href="../cookbook/05_session_by_hand/"' in page


def test_names_are_in_the_reference(site: Path) -> None:
    """With their docstrings, and examples as code."""
    page = (site / "reference" / "lorebank" / "index.html").read_text(encoding="utf-8")
    assert 'id="lorebank.open_bank"' in page
    assert 'id="lorebank.Bank.recall"' in page
    assert "&gt;&gt;&gt;" in page
    for name in ("settings", "errors", "events", "seams", "testing", "langchain", "llamaindex"):
        assert (site / "reference" / name / "index.html").stat().st_size > 20_000


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No font, script, style or picture of another host."""
    for page in site.rglob("*.html"):
        assert _LOADED.search(page.read_text(encoding="utf-8")) is None, page
