package engine

import (
	"slices"
	"strings"
	"time"

	"taskbus/coordinator/engine/internal/state"
)

// asked counts a task that has been resolved for the first time.
func (k *kernel) asked(now time.Time, c *state.Class) {
	c.Asked++
	if !k.Fleet.TakesDemand(now) {
		return
	}
	byKey := func(a, b *state.Class) int { return strings.Compare(a.Key, b.Key) }
	for _, c := range slices.SortedFunc(k.Pending.All(), byKey) {
		k.Fleet.Asked(c.Required, c.Asked)
		c.Asked = 0
	}
	k.Fleet.Weigh()
	k.Learner.Advance(now) // what was learnt is a second older
}
