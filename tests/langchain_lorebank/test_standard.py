"""LangChain's own test suites for tools and retrievers, without overrides."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_lorebank import BankRetriever, MemoryEditTool, RecallTool, ReflectTool, RetainGlobalTool, RetainTool
from lorebank import Bank, open_bank

TEXTS = [
    "Ana prefers aisle seats.",
    "Ana's cat is called Miso.",
    "Ana moved to Porto in May.",
    "Ben drinks tea.",
    "Ana sings alto.",
]


@pytest.fixture(autouse=True, scope="module")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The default file of this module's banks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


def filled() -> Bank:
    bank = open_bank(bank="standard", shared="team")
    bank.retain(TEXTS)
    return bank


class _Tools:
    """What the suites ask of one tool."""

    kind: ClassVar[type[BaseTool]]
    example: ClassVar[dict[str, Any]]

    @property
    def tool_constructor(self) -> type[BaseTool]:
        return self.kind

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"bank": filled()}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return self.example


class _Retain(_Tools):
    kind = RetainTool
    example: ClassVar[dict[str, Any]] = {"items": [{"content": "Ana likes olives."}]}


class _RetainGlobal(_Tools):
    kind = RetainGlobalTool
    example: ClassVar[dict[str, Any]] = {"items": [{"content": "The office is in Lisbon.", "context": "work"}]}


class _Recall(_Tools):
    kind = RecallTool
    example: ClassVar[dict[str, Any]] = {"query": "seat preference?"}


class _Reflect(_Tools):
    kind = ReflectTool
    example: ClassVar[dict[str, Any]] = {"query": "Where does Ana live?", "context": "a trip"}


class _Edit(_Tools):
    kind = MemoryEditTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        [outcome] = filled().retain(f"A fact to forget at {Path.cwd()}").stored or filled().retain("x y z").duplicates
        return {"operation": "update", "id": outcome.id, "content": "A fact that was corrected."}


class TestRetainUnit(_Retain, ToolsUnitTests): ...


class TestRetainIntegration(_Retain, ToolsIntegrationTests): ...


class TestRetainGlobalUnit(_RetainGlobal, ToolsUnitTests): ...


class TestRetainGlobalIntegration(_RetainGlobal, ToolsIntegrationTests): ...


class TestRecallUnit(_Recall, ToolsUnitTests): ...


class TestRecallIntegration(_Recall, ToolsIntegrationTests): ...


class TestReflectUnit(_Reflect, ToolsUnitTests): ...


class TestReflectIntegration(_Reflect, ToolsIntegrationTests): ...


class TestEditUnit(_Edit, ToolsUnitTests): ...


class TestEditIntegration(_Edit, ToolsIntegrationTests): ...


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return BankRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"bank": filled()}

    @property
    def retriever_query_example(self) -> str:
        return "What do you know of Ana?"
