"""An event loop with a clock of its own: where nothing is left to do but to wait, the time has passed at once. What
waits for threads or the network has no place in it."""
from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0  # seconds

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits, and nothing will happen any more")
        self.now += max(0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(main)
