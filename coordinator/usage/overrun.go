package usage

import "time"

// When a forecast is enough to publish that a budget will not last.
const (
	// ShortestTold is the shortest period that is published: those of a minute or a second are over before
	// an operator could act.
	ShortestTold = time.Hour
	// LeastDays is how many whole days of history are enough; with fewer, one of PartTold parts of
	// the period must be over. What is used in its first minutes says little of the rest of it.
	LeastDays = 3
	PartTold  = 10
)

// Alarming reports whether people should hear of it: that more is expected than the cap, from what is
// known well enough (see [LeastDays]). Not of a budget that is used up already, nor of one of
// nothing: about these a forecast has nothing to add.
func (f *BudgetForecast) Alarming() bool {
	so := f.at.Sub(f.Budget.From)
	return f.Overruns && f.Budget.Tellable() && (f.Days >= LeastDays || so >= f.Budget.Until.Sub(f.Budget.From)/PartTold)
}

// Tellable reports whether any forecast of it could be alarming.
func (b *Budget) Tellable() bool { return b.Used < b.Cap && b.Until.Sub(b.From) >= ShortestTold }
