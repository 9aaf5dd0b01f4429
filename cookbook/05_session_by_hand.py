"""Drive a session yourself, with no framework. You learn: what goes in front of the model, what is kept, and how to see both.

Runs offline on the embedded engine with a scripted model; `--url http://...` takes a Hindsight server instead.
"""

import argparse
import tempfile

from lorebank import Message, Session, open_bank

ANSWERS = iter(["Nice to meet you, Ana!", "An aisle seat, then. The train leaves at nine.", "Yes, small dogs do."])


def turn(session: Session, history: list[Message], text: str) -> None:
    """One user turn: recall, call the model, retain."""
    history.append(Message("user", text))
    injection = session.before_turn(history)
    prompt = "\n\n".join(part for part in (injection.memories, text) if part)  # the model's copy; the history stays as it is
    print(f"== memories: {injection.result.state}, sent to the model:\n{prompt}")
    history.append(Message("assistant", next(ANSWERS)))  # here you would call your model with system_prefix and prompt
    receipt = session.after_turn(history)
    print(f"== answered: {history[-1].text} (new: {receipt.new}, kept: {receipt.kept})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", help="a Hindsight server")
    with tempfile.TemporaryDirectory() as folder:
        url = parser.parse_args().url or f"sqlite:///{folder}/memory.db"
        with open_bank(url, bank="ana", ledger=f"sqlite:///{folder}/ledger.db" if url.startswith("http") else None) as bank:
            with bank.session("monday", tools=("recall", "retain")) as session:
                turn(session, [], "I am Ana, I always take aisle seats, and my dog is called Bello.")
            bank.flush(timeout=60, until="completed")  # a server works up what it was told; the embedded engine knows at once
            with bank.session("tuesday", tools=("recall", "retain")) as session:
                history: list[Message] = []
                turn(session, history, "Which seats do I take?")
                print(f"== trace: {len(session.last_recall().shown)} shown for {session.last_recall().query!r}")
                session.mode = "read-only"
                turn(session, history, "Does my dog Bello travel for free?")
                print(f"== system prefix:\n{session.before_turn(history).system_prefix}")


if __name__ == "__main__":
    main()
