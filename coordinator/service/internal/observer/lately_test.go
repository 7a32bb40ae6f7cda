package observer

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator/service/internal/views"
)

// Ids may be invented: so many are kept, and those that have stopped make room.
func TestSendersAreBounded(t *testing.T) {
	var c senderCounts
	now := time.Unix(1000, 0)
	for i := range 3 * maxSenders {
		c.add(now, fmt.Sprint("x", i))
	}
	if all, by := c.lastMinute(now); all != 3*maxSenders || len(by) != maxSenders || len(c.of) != maxSenders {
		t.Errorf("%d messages of %d ids, %d kept; want %d of %d", all, len(by), len(c.of), 3*maxSenders, maxSenders)
	}
	now = now.Add(time.Minute)
	c.add(now, "new")
	if all, by := c.lastMinute(now); all != 1 || len(by) != 1 || by[0] != (views.SenderCount{ID: "new", N: 1}) ||
		len(c.of) != 1 {
		t.Errorf("a minute later %d messages, %v, %d kept", all, by, len(c.of))
	}
}
