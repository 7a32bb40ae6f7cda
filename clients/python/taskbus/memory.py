"""A bounded memory: of what is over, the newest is remembered."""
from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

OVERHEAD = 400  # bytes that a remembered value takes beside its own, about


class Memory(Generic[V]):
    """Values by key, at most `limit` of them, and about `most` bytes as `size` counts them (0: any number). The oldest
    go first; a value that is larger than `most` is not kept."""

    def __init__(self, limit: int, most: int = 0, size: Callable[[V], int] = lambda _: 0) -> None:
        self._limit, self._most, self._size = limit, most, size
        self._values: dict[str, V] = {}  # oldest first
        self._held = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> V | None:
        return self._values.get(key)

    def add(self, key: str, value: V) -> list[tuple[str, V]]:
        """Remembers a value as the newest, and gives those that had to go."""
        self.pop(key)
        self._values[key] = value
        self._held += self._weight(key, value)
        gone = []
        while len(self._values) > self._limit or self._most and self._held > self._most:
            oldest = next(iter(self._values))
            gone.append((oldest, self._values[oldest]))
            self.pop(oldest)
        return gone

    def pop(self, key: str) -> V | None:
        if key not in self._values:
            return None
        value = self._values.pop(key)
        self._held -= self._weight(key, value)
        return value

    def _weight(self, key: str, value: V) -> int:
        return OVERHEAD + len(key) + self._size(value)
