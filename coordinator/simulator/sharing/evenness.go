package sharing

import (
	"slices"
	"time"
)

// evenness is how even the service of tenants by weight is while all of them wait.
type evenness struct {
	gap   float64 // the largest so far
	worst float64 // Jain's index of the least even minute that is over
	// minute is the one at hand, before what everyone had been served when it began.
	minute time.Duration
	before []float64
}

func newEvenness(tenants int) evenness {
	return evenness{worst: 1, before: make([]float64, tenants)}
}

// byWeight is what each was served, by weight.
func byWeight(tenants []*tenant) []float64 {
	list := make([]float64, len(tenants))
	for i, t := range tenants {
		list[i] = float64(t.served) / float64(t.weight)
	}
	return list
}

// look at the service after a dispatch.
func (e *evenness) look(now time.Duration, tenants []*tenant) {
	served := byWeight(tenants)
	e.gap = max(e.gap, slices.Max(served)-slices.Min(served))
	if minute := now / time.Minute; minute > e.minute {
		within := make([]float64, len(served))
		for i := range served {
			within[i] = served[i] - e.before[i]
		}
		e.worst = min(e.worst, jain(within))
		e.minute, e.before = minute, served
	}
}

// bound of the gap of shares, by the theorem (see fairqueue.Shares.Ahead): K·c/w of
// the two tenants of which that is most.
func bound(tenants []*tenant) float64 {
	var parts []float64
	for _, t := range tenants {
		parts = append(parts, float64(t.mostOpen)*float64(t.dearest)/float64(t.weight))
	}
	slices.Sort(parts)
	return parts[len(parts)-1] + parts[len(parts)-2]
}

// jain is Jain's index (Σx)²/(n·Σx²): 1 when all are equal, 1/n when one has everything; 1
// when none has anything.
func jain(list []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range list {
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(list)) * squares)
}
