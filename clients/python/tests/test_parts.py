"""What needs neither a broker nor a loop: messages, verdicts, memory."""
from __future__ import annotations

import json
import math
import unittest
from datetime import datetime, timezone
from typing import Any

from taskbus import Fail, OutputRef, Reject, Retry, RetryAfter, Task, verdict, wire
from taskbus.memory import OVERHEAD, Memory
from taskbus.task import Usage
from taskbus.verdict import Cause, SILENT, Verdict, Words

DISPATCH: dict[str, Any] = {
    "message_type": "task.dispatch", "task_id": "t-1", "assigned_agent": "a1", "correlation_id": "trace-1",
    "assignment_time": "2026-11-21T09:47:33.135749Z", "queue": "agent.a1", "task_type": "build", "priority": 3,
    "timeout_seconds": 120, "dispatch_id": "t-1.mwq85dhr.1", "attempt": 1, "payload": {"host": "süd"},
}


def read(changes: dict[str, Any], headers: dict[str, Any] | None = None, redelivered: bool = False) -> Task:
    body = json.dumps({k: v for k, v in {**DISPATCH, **changes}.items() if v is not None}).encode()
    return wire.read_dispatch(body, headers or {}, redelivered, "a1")


class Messages(unittest.TestCase):
    def test_a_dispatch_is_read(self) -> None:
        task = read({"deadline": "2026-11-21T10:00:00+01:00", "model": "small"}, {"traceparent": "00-ab-cd-01"})
        self.assertEqual((task.id, task.type, task.payload, task.priority), ("t-1", "build", {"host": "süd"}, 3))
        self.assertEqual((task.trace_id, task.traceparent, task.tracestate), ("trace-1", "00-ab-cd-01", ""))
        self.assertEqual(task.deadline, datetime(2026, 11, 21, 9, tzinfo=timezone.utc))
        self.assertEqual((task.timeout, task.attempt, task.model, task.maybe_duplicate), (120.0, 1, "small", False))

    def test_a_copy_is_told(self) -> None:
        self.assertTrue(read({}, redelivered=True).maybe_duplicate)
        self.assertTrue(read({}, {"x-taskbus-maybe-duplicate": True}).maybe_duplicate)

    def test_what_is_refused(self) -> None:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"message_version": 2}, "version 1"), ({"payload": [1]}, "payload"), ({"attempt": True}, "attempt"),
            ({"assigned_agent": "a2"}, "for the agent a2"), ({"dispatch_id": "no good"}, "an id"),
            ({"message_type": "task.assign"}, "no task.dispatch"), ({"timeout_seconds": None}, "timeout_seconds"),
        ]
        for changes, reason in refused:
            with self.subTest(reason), self.assertRaises(wire.Refused) as caught:
                read(changes)
            self.assertIn(reason, str(caught.exception))
            self.assertEqual(caught.exception.names["task_id"], "t-1")
        for body in (b"[]", b"{", b"\xff", b"[" * 100_000):
            with self.assertRaises(wire.Refused) as caught:
                wire.read_dispatch(body, {}, False, "a1")
            self.assertEqual(caught.exception.names, {})

    def test_a_life_is_in_the_dispatch_id(self) -> None:
        self.assertEqual(wire.life_of("t.1", "t.1.z.2"), 35)  # to the base 36 z is 35
        for other in ("t.1.2", "t-1.z.2", "t.1.z.2.3", "t.1.!.2"):
            self.assertEqual(wire.life_of("t.1", other), 0)

    def test_texts_are_made_fit(self) -> None:
        self.assertEqual(wire.clean("a\nb\u202ec\ud800"), "a b c?")
        self.assertEqual(wire.clean("ä" * 10, 10), "äää…")  # 3 times 2 bytes, and 3 of the ellipsis: a 4th has no room
        self.assertEqual(wire.clean("x" * 2048), "x" * 2048)

    def test_a_result_begins_with_its_names_and_ends_with_the_output(self) -> None:
        body = verdict.result({"task_id": "t-1", "agent_id": "a1"}, Verdict("succeeded", output=b'{"a":1}'), "now")
        self.assertTrue(body.startswith(b'{"message_type":"task.result","task_id":"t-1","agent_id":"a1",'))
        self.assertTrue(body.endswith(b',"output":{"a":1}}'))
        m = json.loads(verdict.result({}, Verdict("rejected", "why", True, 2.5, {"requests": 1}, took=0.25), "now"))
        self.assertEqual((m["attempted"], m["retry_after_ms"], m["error"], m["usage"], m["duration_ms"]),
                         (True, 2500, "why", {"requests": 1}, 250))


class Verdicts(unittest.TestCase):
    def judge(self, words: Words, cause: Cause | None = None, reason: str = "") -> Verdict:
        return verdict.judge(words, cause, reason, Usage(), 1.5)

    def test_return_values(self) -> None:
        for value, output in (({"ü": [1, None]}, '{"ü":[1,null]}'), ("", '""'), (0, "0"), (None, None)):
            v = self.judge(verdict.said(value))
            self.assertEqual((v.outcome, v.output), ("succeeded", output.encode() if output else None))
        circle: list[Any] = []
        circle.append(circle)
        for value in ({1, 2}, math.nan, "\ud800", circle, {"a": b"secret"}):
            v = self.judge(verdict.said(value))
            self.assertEqual(v.outcome, "failed")
            self.assertIn("cannot be written as JSON", v.text)
            self.assertNotIn("secret", v.text)
        self.assertIn("8388611 bytes", self.judge(verdict.said("x" * (8 << 20) + "y")).text)  # 8 MiB + 1 + 2 quotes

    def test_a_reference_in_place_of_the_output(self) -> None:
        ref = OutputRef("s3://b/k", "0" * 64, 12)
        self.assertIs(self.judge(verdict.said(ref)).ref, ref)
        for bad in (OutputRef("s3://b/k", "A" * 64, 12), OutputRef("a b", "0" * 64, 12), OutputRef("a", "0" * 64, -1)):
            self.assertEqual(self.judge(verdict.said(bad)).outcome, "failed")

    def test_exceptions(self) -> None:
        for e, outcome, attempted, after, text in (
            (Reject("no GPU"), "rejected", False, 0, "no GPU"), (Retry("away"), "rejected", True, 0, "away"),
            (RetryAfter(20), "rejected", True, 20, "to be tried again in 20 s"),
            (Fail("no page"), "failed", False, 0, "no page"),
            (RetryAfter(math.nan, "x"), "rejected", True, 0, "x"), (RetryAfter(1e9, "x"), "rejected", True, 86400, "x"),
            (Fail(), "failed", False, 0, "Fail without a text"),
        ):
            v = self.judge(verdict.raised(e))
            self.assertEqual((v.outcome, v.attempted, v.after, v.text), (outcome, attempted, after, text))

    def test_an_accident_tells_its_place_and_no_value(self) -> None:
        def handler(payload: dict[str, str]) -> str:
            return payload["secret"]

        try:
            handler({})
        except KeyError as e:
            v, way = self.judge(verdict.raised(e)), verdict.way(e)
        self.assertEqual((v.outcome, v.attempted), ("rejected", True))
        self.assertRegex(v.text, r"^KeyError in handler \(test_parts\.py:\d+\)$")
        self.assertRegex(way, r"^handler \S+:\d+; test_an_accident")
        self.assertNotIn("secret", v.text + way)

    def test_a_cause_outweighs_the_words_that_follow_from_it(self) -> None:
        accident = Words(outcome="rejected", attempted=True, text="CancelledError")
        for words, cause, outcome, text in (
            (accident, Cause.WITHDRAWN, "cancelled", "the task was withdrawn: over"),
            (SILENT, Cause.WITHDRAWN, "cancelled", "the handler has not returned: the task was withdrawn: over"),
            (accident, Cause.OUT_OF_TIME, "failed", "ran out of time after 1.5 s: CancelledError"),
            (accident, Cause.STOPPING, "rejected", "the agent is stopping"),
        ):
            v = self.judge(words, cause, "over")
            self.assertEqual((v.outcome, v.attempted, v.text), (outcome, False, text))
        self.assertEqual(self.judge(verdict.said(1), Cause.WITHDRAWN).outcome, "succeeded")  # done in spite of it

    def test_usage_adds_up(self) -> None:
        task = read({})
        task.used(requests=1, input_tokens=1000, provider="openai", model="a\nb")
        task.used(requests=1, output_tokens=20, cost_usd=math.nan, input_tokens=-5)
        self.assertEqual(task.usage.wire(), {"requests": 2, "input_tokens": 1000, "output_tokens": 20,
                                             "provider": "openai", "model": "a b"})
        self.assertIsNone(Usage().wire())


class Bounded(unittest.TestCase):
    def test_the_oldest_go_first(self) -> None:
        m: Memory[str] = Memory(2)
        m.add("a", "1")
        m.add("b", "2")
        m.add("a", "3")  # the newest now
        self.assertEqual(m.add("c", "4"), [("b", "2")])
        self.assertEqual((m.get("a"), m.get("b"), m.pop("c"), m.pop("c")), ("3", None, "4", None))

    def test_bytes_are_bounded(self) -> None:
        m: Memory[str] = Memory(100, 3 * (OVERHEAD + 1 + 10), len)  # of three with keys of 1 and values of 10 bytes
        for key in "abcd":
            m.add(key, "x" * 10)
        self.assertEqual((len(m), m.get("a")), (3, None))
        m.add("e", "x" * 5000)  # more than all may have
        self.assertEqual(len(m), 0)


if __name__ == "__main__":
    unittest.main()
