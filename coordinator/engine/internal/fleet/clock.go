package fleet

import "time"

// Clock is how far an agent's clock is behind ours, as observed: the smallest difference between arrival and
// timestamp of its live reports, which is the one with least delay on the way. Clocks of agents are wrong by minutes
// in real life.
type Clock struct {
	Known  bool
	Offset time.Duration
}

// observe learns from one live report.
func (c *Clock) observe(arrived, stamp time.Time) {
	d := arrived.Sub(stamp)
	if !c.Known || d < c.Offset {
		c.Known, c.Offset = true, d
	}
}

// Ours translates the agent's timestamp into our time; the offset must be known.
func (c *Clock) Ours(stamp time.Time) time.Time { return stamp.Add(c.Offset) }
