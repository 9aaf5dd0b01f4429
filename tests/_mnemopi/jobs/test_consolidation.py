"""Consolidation: observations with links to their sources; nothing that was stated is deleted, cut or hidden."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Memory, UnavailableError
from lorebank._domain.memory import TOOL
from lorebank.seams import Consolidated, Event
from lorebank.testing import ScriptedCompleter

Worked = Callable[..., Bank]
Look = Callable[[str], list[Any]]
SEATS = [
    "Ana prefers aisle seats on long flights.",
    "Ana booked an aisle seat for the flight to Lima.",
    "On the flight to Oslo Ana had a window seat. She wants aisle seats only.",
]
CAT = "The cat is called Mimi."


def observations(bank: Bank) -> list[Memory]:
    return list(bank.list(types=["observation"]))


def told(bank: Bank) -> dict[str, Memory]:
    return {memory.id: memory for memory in bank.list(types=["world", "experience"], limit=1000)}


def test_what_belongs_together_becomes_one_observation(place: str, worked: Worked) -> None:
    """Word for word, newest first, with the weakest veracity of its sources; what belongs nowhere is in none."""
    bank = worked(place)
    bank.retain([*SEATS, CAT])
    before = told(bank)
    done = bank.consolidate()
    assert (done.observations, done.memories, done.tokens, done.reason) == (1, 3, 0, None)
    [found] = observations(bank)
    assert (found.type, found.source, found.importance, found.veracity) == ("observation", "consolidation", 0.6, "stated")
    assert [line for line in found.text.splitlines() if line in " ".join(SEATS)] == found.text.splitlines()
    assert "Mimi" not in found.text
    assert {before[origin].text for origin in found.derived_from} == set(SEATS)
    assert bank.get(found.id).derived_from == found.derived_from
    assert told(bank) == before
    assert bank.check().ok
    assert bank.stats().by_type == {"observation": 1, "world": 4}


def test_what_is_of_a_kind_only_is_not_put_together(place: str, worked: Worked) -> None:
    """Three animals of three people have no word in common."""
    bank = worked(place)
    bank.retain(["The kitten sleeps a lot.", "A parrot greeted everybody.", "Goldfish need clean water."])
    assert bank.consolidate().observations == 0


def test_consolidating_again_changes_nothing_and_more_memories_join(place: str, worked: Worked) -> None:
    """Work goes by what is new; the observation keeps its id."""
    bank = worked(place)
    bank.retain(SEATS)
    bank.consolidate()
    [first] = observations(bank)
    assert bank.consolidate().observations == 0
    bank.retain("Ana paid extra for the aisle seat on the flight back.")
    assert bank.consolidate().memories == 4
    [second] = observations(bank)
    assert (second.id, "flight back" in second.text) == (first.id, True)
    assert bank.check().ok


@pytest.mark.parametrize("how", ["forget", "update", "invalidate", "replace"])
def test_a_source_that_goes_or_changes_takes_its_words_along(place: str, worked: Worked, how: str) -> None:
    """In the same transaction; the next consolidation writes an observation of what is left."""
    bank = worked(place)
    bank.retain(SEATS[:2])
    known = bank.retain("The flight to Lima with an aisle seat cost Ana 4711 crowns.", document_id="d").stored[0].id
    bank.retain(SEATS[2])
    bank.consolidate()
    assert "4711" in observations(bank)[0].text
    if how == "forget":
        assert set(bank.forget(known).ids) > {known}
    elif how == "update":
        bank.update(known, content="The flight to Lima with an aisle seat cost Ana nothing.")
    elif how == "invalidate":
        bank.invalidate(known)
    else:
        bank.retain("Nothing of the kind.", document_id="d", update_mode="replace")
    assert observations(bank) == []
    assert bank.check().ok
    assert bank.consolidate().observations == 1
    [found] = observations(bank)
    assert ("4711" in found.text, "Oslo" in found.text or "aisle" in found.text) == (False, True)


def test_a_forgotten_source_is_in_no_byte_of_the_file(worked: Worked, url: str, bytes_of: Callable[[], bytes]) -> None:
    """Neither its row nor the observation that repeated it, nor any index, nor a mental model made from that."""
    bank = worked(url)
    bank.retain(SEATS)
    known = bank.retain("Ana paid Quentin for the aisle seat on the flight.").stored[0].id
    bank.consolidate()
    bank.mental_models.create("seats", name="Seats", source_query="What of Ana's aisle seat on the flight?")
    assert b"Quentin" in bytes_of()
    assert bank.forget(known).purged
    assert b"quentin" not in bytes_of().lower()


def test_what_holds_now_comes_before_what_was_superseded(place: str, worked: Worked, clock: Any) -> None:
    """Both are kept."""
    bank = worked(place)
    bank.retain("My favourite seat on the plane is the window seat, row 12.")
    bank.retain("I chose a window seat on the plane.")
    clock.now += timedelta(days=30)
    bank.retain("My favourite seat on the plane is the aisle seat, row 14.")
    bank.consolidate()
    lines = observations(bank)[0].text.splitlines()
    assert lines[0].endswith("row 14.")
    assert lines[-1].endswith("row 12.")


def test_memories_of_different_tags_never_meet(place: str, worked: Worked) -> None:
    """Who may read the one may not be one who may read the other."""
    bank = worked(place)
    for text, tag in zip(SEATS, ("a", "b", "c"), strict=True):
        bank.retain(text, tags=[tag])
    assert bank.consolidate().observations == 0
    bank.retain([f"{text} Really." for text in SEATS], tags=["a"])
    bank.consolidate()
    [found] = observations(bank)
    assert found.tags == ("a",)


def test_an_observation_ends_with_the_first_of_its_sources(place: str, worked: Worked, clock: Any) -> None:
    """What expires is not repeated after that."""
    bank = worked(place)
    ends = clock.now + timedelta(days=7)
    bank.retain(SEATS[:2])
    bank.retain(SEATS[2], valid_until=ends)
    bank.consolidate()
    assert observations(bank)[0].valid_until == ends
    clock.now += timedelta(days=8)
    assert observations(bank) == []


def test_an_observation_is_as_sure_as_the_least_sure_of_its_sources(place: str, worked: Worked) -> None:
    """One that a tool wrote among those that were stated makes it a tool's."""
    bank = worked(place)
    bank.retain(SEATS[:2])
    bank.write(SEATS[2], {}, TOOL)
    bank.consolidate()
    assert [memory.veracity for memory in observations(bank)] == ["tool"]


def test_what_holds_no_longer_is_not_consolidated(place: str, worked: Worked, clock: Any) -> None:
    """What has expired or was invalidated before is in no observation."""
    bank = worked(place)
    bank.retain([*SEATS, "Ana paid extra for the aisle seat on the flight back."])
    bank.retain("Ana has the aisle seat 4711 on the flight.", valid_until=clock.now + timedelta(hours=1))
    bank.invalidate(str(bank.retain("Ana has the aisle seat 4712 on the flight.").stored[0].id))
    clock.now += timedelta(hours=2)
    bank.consolidate()
    [found] = observations(bank)
    assert (len(found.derived_from), "471" in found.text, found.valid_until) == (4, False, None)


@pytest.mark.parametrize("age", [timedelta(hours=25), timedelta(days=8), timedelta(days=400)])
def test_nothing_stated_is_deleted_or_cut_at_any_age(place: str, worked: Worked, clock: Any, age: timedelta) -> None:
    """A day, a week and a year later, after as many consolidations, every memory is there whole, and is found."""
    bank = worked(place, consolidation=True)
    long = "Ana's aisle seat on the flight. " * 400
    bank.retain([*SEATS, CAT, long])
    before = told(bank)
    for _ in range(3):
        bank.consolidate()
        clock.now += age / 3
        assert bank.flush(until="completed").done
    assert told(bank) == before
    assert {memory.text for memory in bank.recall("Which seat does Ana like on a flight?", max_tokens=9000)} >= set(SEATS)


def test_recall_is_the_same_with_observations_as_without(place: str, worked: Worked) -> None:
    """They weigh in nowhere, unless they are asked for; asked for all types, each thing comes once, as it was told."""
    bank = worked(place)
    bank.retain([*SEATS, CAT])
    query = "Which seat does Ana want on the flight to Oslo?"
    before = [(memory.id, memory.score) for memory in bank.recall(query)]
    bank.consolidate()
    assert [(memory.id, memory.score) for memory in bank.recall(query)] == before
    everything = bank.recall(query, types=["world", "experience", "observation"])
    assert {memory.type for memory in everything} == {"world"}
    assert [memory.type for memory in bank.recall(query, types=["observation"])] == ["observation"]


def test_a_completer_writes_what_its_sources_say_and_nothing_else(place: str, worked: Worked) -> None:
    """A statement without a source, with a strange number, or with a strange name is dropped; events tell the cost."""
    events: list[Event] = []
    script = [
        {
            "statements": [
                {"text": "Ana wants aisle seats on long flights.", "memories": [1, 3]},
                {"text": "Ana flew 12 times.", "memories": [1]},
                {"text": "Ana flew with Quentin.", "memories": [2]},
                {"text": "Ana likes window seats.", "memories": []},
            ]
        }
    ]
    completer = ScriptedCompleter(script)
    bank = worked(place, completer, events)
    bank.retain(SEATS)
    done = bank.consolidate()
    assert observations(bank)[0].text == "Ana wants aisle seats on long flights."
    assert done.tokens > 100
    assert completer.asked[0].max_tokens == 256
    [event] = [each for each in events if isinstance(each, Consolidated)]
    assert (event.observations, event.memories, event.requests, event.sent + event.received) == (1, 3, 1, done.tokens)


def test_a_completer_that_fails_loses_nothing_and_one_that_talks_nonsense_is_done_without(place: str, worked: Worked) -> None:
    """The first raises, and the work waits; the second leaves an extractive observation."""
    bank = worked(place, [RuntimeError("down"), RuntimeError("down"), "nonsense", "nonsense"])
    bank.retain(SEATS)
    with pytest.raises(UnavailableError, match="completer failed"):
        bank.consolidate()
    assert bank.consolidate().observations == 1
    assert SEATS[0] in observations(bank)[0].text


def test_memories_that_a_completer_refuses_get_an_extractive_observation(place: str, worked: Worked) -> None:
    """It answers something harmless in between: it is not down."""
    bank = worked(place, lambda prompt: RuntimeError("content filter") if "window" in prompt else "{}")
    bank.retain(SEATS)
    assert bank.consolidate().observations == 1
    assert SEATS[0] in observations(bank)[0].text


def test_a_source_that_changes_while_the_completer_writes_is_not_repeated(place: str, worked: Worked) -> None:
    """What was written from the old text is thrown away, and written anew."""
    banks: list[Bank] = []
    changed: list[str] = []

    def answer(prompt: str) -> Any:
        if not changed:
            first = banks[0].list()[0]
            changed.append(banks[0].update(first.id, content="Ana wants a seat, window or aisle, on the flight to Rome.").id)
            return {"statements": [{"text": "Ana had a window seat on the flight to Oslo.", "memories": [3]}]}
        assert "Oslo" not in prompt
        return {"statements": [{"text": "Ana wants a seat on the flight to Rome.", "memories": [3]}]}

    banks.append(worked(place, answer))
    banks[0].retain(SEATS)
    banks[0].consolidate()
    assert [memory.text for memory in observations(banks[0])] == ["Ana wants a seat on the flight to Rome."]
    assert banks[0].check().ok


def test_a_source_that_is_forgotten_while_the_completer_writes_is_not_repeated(place: str, worked: Worked) -> None:
    """The rest is thought about again, and there is too little left."""
    banks: list[Bank] = []

    def answer(_prompt: str) -> Any:
        banks[0].forget(banks[0].list()[0].id)
        return {"statements": [{"text": "Ana had a window seat on the flight to Oslo.", "memories": [3]}]}

    banks.append(worked(place, answer))
    banks[0].retain(SEATS)
    assert banks[0].consolidate().observations == 0
    assert len(told(banks[0])) == 2
    assert observations(banks[0]) == []
    assert banks[0].check().ok


def test_an_observation_that_somebody_corrects_is_theirs(place: str, worked: Worked) -> None:
    """It is written over by no consolidation, and owes nothing to its sources any longer."""
    bank = worked(place)
    ids = [outcome.id for outcome in bank.retain(SEATS).stored]
    bank.consolidate()
    own = bank.update(observations(bank)[0].id, content="Ana: always the aisle.")
    bank.retain("Ana paid extra for the aisle seat on the flight back.")
    bank.consolidate()
    bank.forget(ids[0])
    assert bank.get(own.id).text == "Ana: always the aisle."


async def test_the_awaited_form_does_the_same(worked: Worked, url: str) -> None:
    """Several at once write each observation once."""
    bank = worked(url)
    await bank.aretain(SEATS)
    done = await asyncio.gather(*(bank.aconsolidate() for _ in range(4)))
    assert sum(each.observations for each in done) == 1
    assert len(observations(bank)) == 1


def test_exports_carry_observations_with_their_sources(place: str, worked: Worked, url: str, tmp_path: Path) -> None:
    """In another bank they go with their sources as they did at home; a second import changes nothing."""
    bank = worked(place)
    bank.retain(SEATS)
    bank.consolidate()
    bank.export(tmp_path / "alice.jsonl")
    other = worked(f"{url}.other").named("bob")
    assert other.import_(tmp_path / "alice.jsonl").added == 4
    assert other.import_(tmp_path / "alice.jsonl").added == 0
    assert [memory.text for memory in observations(other)] == [memory.text for memory in observations(bank)]
    assert other.consolidate().observations == 0
    assert other.check().ok
    other.forget(next(memory.id for memory in told(other).values() if "Lima" in memory.text))
    assert observations(other) == []


def test_a_link_that_leads_nowhere_is_a_problem(worked: Worked, url: str, look: Look) -> None:
    """`check` finds it."""
    bank = worked(url)
    bank.retain(SEATS)
    bank.consolidate()
    assert look("SELECT count(*) FROM sources") == [3]
    look("INSERT INTO sources (key, source) VALUES (1, 2)")
    assert re.search("1 links .* lead nowhere", bank.check().problems[0])
