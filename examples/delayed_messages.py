"""Messages that are delivered later, to whoever asks for them, and again if it does not say that it is done.

    python examples/delayed_messages.py

A message is in the file when `add` returns, and stays there until it is acknowledged, though processes die. At least
once: who must do things once remembers the ids it has done. Consumers in other programs, in any language, ask over
HTTP: see docs/queues.md. Within one process, and without durability, `DelayQueue` is all it takes.
"""

import tempfile

from tickwheel import RetryPolicy, Scheduler

QUICKLY = RetryPolicy(retries=5, first_ms=200, jitter=0)  # the usual is 1,000 times, after a second and more


def main(url: str) -> None:
    """Send a few mails later, with a consumer that is not always in its best form."""
    sent: set[str] = set()
    with Scheduler(url) as scheduler:
        scheduler.add(queue="mails", args={"text": "welcome"}, delay="100ms", id="welcome", retry=QUICKLY)
        scheduler.add(queue="mails", args={"text": "your receipt"}, delay="300ms", id="receipt", retry=QUICKLY)
        while len(sent) < 3:
            for message in scheduler.lease("mails", limit=10, lease="2s", wait="10s"):
                text, token = message.args["text"], message.lease_token
                if message.id == "receipt" and message.attempt == 1:
                    print(f"{text}: the mail server is busy")
                    scheduler.nack(message.id, token, "busy", delay="200ms")
                elif message.id == "survey" and message.attempt == 1:
                    print(f"{text}: forgotten; when its lease runs out it is offered again")
                else:
                    print(f"{text}: sent at attempt {message.attempt}")
                    sent.add(message.id)  # in earnest: in a database, and looked for before it is sent
                    scheduler.ack(message.id, token)
                    if message.id == "receipt":
                        scheduler.add(queue="mails", args={"text": "how was it?"}, delay="1s", id="survey")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(f"sqlite:///{folder}/tasks.db")
