"""Importing is light, and a missing framework says what to install."""

import subprocess
import sys

import pytest

COUNT = """
import sys
before = set(sys.modules)
import lorebank
new = {name for name in set(sys.modules) - before if name.split(".")[0] not in sys.stdlib_module_names}
heavy = sorted(name for name in sys.modules if name.split(".")[0] in {heavy!r})
print(len(new), heavy)
"""
HEAVY = {
    "httpx",
    "pydantic",
    "sqlalchemy",
    "numpy",
    "Stemmer",
    "langchain",
    "langchain_core",
    "langgraph",
    "llama_index",
    "typer",
    "rich",
}
FRAMEWORKS = ("langchain", "langchain_core", "langgraph", "llama_index")
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in {names!r} else real(name, package)
try:
    import {module}
except ImportError as error:
    print(error)
"""


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_lorebank_loads_few_modules_and_no_heavy_one() -> None:
    """At most 60 modules beyond the standard library's; httpx, pydantic, sqlalchemy and frameworks are none of them."""
    count, heavy = run(COUNT.replace("{heavy!r}", repr(HEAVY))).split(" ", 1)
    assert int(count) <= 60
    assert heavy == "[]"


@pytest.mark.parametrize("module", ["lorebank.seams", "langchain_lorebank.tools"])
def test_the_database_and_numpy_load_when_a_bank_is_opened(module: str) -> None:
    """What an integration imports is light, too."""
    code = f"import sys, {module}\nprint(sorted(n for n in sys.modules if n in ('sqlalchemy', 'Stemmer', 'httpx')))"
    assert run(code) == "[]"


def test_using_a_bank_loads_no_framework() -> None:
    """The core works without any framework in memory."""
    code = (
        "import sys\nfrom lorebank.testing import temporary_bank\n"
        "with temporary_bank() as bank:\n    bank.retain('x y'); bank.recall('x')\n"
        f"print([n for n in sys.modules if n.split('.')[0] in {FRAMEWORKS!r}])"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("langchain_lorebank", "langchain_core", "lorebank[langchain]"),
        ("llamaindex_lorebank", "llama_index", "lorebank[llamaindex]"),
    ],
)
def test_an_integration_without_its_framework_names_the_extra(module: str, missing: str, extra: str) -> None:
    """One line says what to install."""
    told = run(BLOCKED.replace("{names!r}", repr({missing})).replace("{module}", module))
    assert extra in told
    assert "\n" not in told
