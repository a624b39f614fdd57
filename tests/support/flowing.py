"""Records that keep coming while a test does something to a sink."""

from __future__ import annotations

import threading

from tests.support.kafka import Topic, framed

SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}


class Flowing:
    """Records that keep coming into partition 0, one every tenth of a second, until `end`."""

    def __init__(self, topic: Topic) -> None:
        self.topic, self._schema_id = topic, topic.register(SCHEMA)
        self._over = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        while not self._over.wait(0.1):
            self.topic.send(framed(self._schema_id, SCHEMA, [{"id": self.sent}]))
            self.sent += 1

    def end(self) -> int:
        """Stop sending; how many records were sent."""
        self._over.set()
        self._thread.join(30)
        return self.sent
