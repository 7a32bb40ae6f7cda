package usage

import (
	"time"

	"taskbus/coordinator/view"
)

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
	b := f.Budget
	so := f.at.Sub(b.PeriodFrom)
	return f.Overruns && Tellable(b) && (f.Days >= LeastDays || so >= b.ResetTime.Sub(b.PeriodFrom)/PartTold)
}

// Tellable reports whether any forecast of a budget could be alarming.
func Tellable(b *view.QuotaBudget) bool {
	return b.Used < b.Cap && b.ResetTime.Sub(b.PeriodFrom) >= ShortestTold
}
