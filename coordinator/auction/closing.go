package auction

import "time"

// Closing is why an auction need not wait any longer.
type Closing uint8

// The causes. NotYet: waiting may still change which bid wins.
const (
	NotYet Closing = iota
	// AllAnswered: no agent is left to wait for.
	AllAnswered
	// Unbeatable: no bid that may still come can win.
	Unbeatable
	// QuorumReached: enough bids, and the slowest twentieth is all there is to wait for.
	QuorumReached
	// WindowOver: the time is up, or the auction was closed.
	WindowOver
)

// String is the name for metrics: "not_yet", "all_answered", "unbeatable", "quorum",
// "window".
func (c Closing) String() string {
	switch c {
	case AllAnswered:
		return "all_answered"
	case Unbeatable:
		return "unbeatable"
	case QuorumReached:
		return "quorum"
	case WindowOver:
		return "window"
	default:
		return "not_yet"
	}
}

// Patience says when an auction stops waiting before its window is over.
type Patience struct {
	// Quorum is how many bids that count are enough once P95 has passed; 0: never.
	Quorum int
	// P95 of the reply times, see [Window.P95]; 0: not known, and Quorum is not used.
	P95 time.Duration
	// Possible is the best appraisal that any bid still to come could get. Where
	// nothing better is known: fitness 1, active 0, and the shortest duration known.
	Possible Appraisal
}

// Closing says whether the auction may be decided at now, and why. It does not close
// it. Ask after each bid or withdrawal, and at [Book.NextLook].
func (b *Book) Closing(now time.Time, p Patience) Closing {
	switch {
	case b.Over(now):
		return WindowOver
	case b.waiting == 0:
		return AllAnswered
	case b.best >= 0 && b.places[b.best].ranked.unbeatable(p.Possible):
		return Unbeatable
	case b.quorum(p) && now.Sub(b.opened) > p.P95:
		return QuorumReached
	default:
		return NotYet
	}
}

// NextLook is when the answer of [Book.Closing] may change though nothing happens.
func (b *Book) NextLook(p Patience) time.Time {
	if b.quorum(p) {
		if at := b.opened.Add(p.P95 + 1); at.Before(b.closes) {
			return at
		}
	}
	return b.closes
}

func (b *Book) quorum(p Patience) bool {
	return p.Quorum > 0 && p.P95 > 0 && b.counted >= p.Quorum
}

// unbeatable reports whether no bid up to the possible one ranks strictly better than
// r. One that is equal in everything might win by its hash; that is not worth a wait.
func (r *Ranked) unbeatable(possible Appraisal) bool {
	a := &r.Appraisal
	if a.Fitness != possible.Fitness {
		return a.Fitness > possible.Fitness
	}
	if a.Active != possible.Active {
		return a.Active < possible.Active
	}
	return a.Duration <= possible.Duration
}
