package bus

import "time"

// Position is where reading a stream begins. The zero value means only what comes
// next. For a queue it is of no account.
//
// Every message of a stream has an offset. Offsets grow, from 0, and have gaps: the
// broker numbers more than messages. A stream forgets its oldest messages, so that a
// position may lie before the first that it still has; reading then begins with that
// one. At a position beyond the end nothing is read until the stream has come that
// far.
type Position struct {
	kind PositionKind
	n    int64 // nanoseconds, of 1970 for PositionSince, or offset
}

// PositionKind tells how a position is given.
type PositionKind uint8

// The kinds of positions.
const (
	PositionNext  PositionKind = iota // what comes next
	PositionAgo                       // what was published since a time ago
	PositionSince                     // what was published since a time of day
	PositionFirst                     // all that there is
	PositionLast                      // the last of what there is
	PositionAt                        // an offset
)

// Ago begins with what was published since d ago; the broker may begin earlier. Where
// d is not positive, that is only what comes next.
func Ago(d time.Duration) Position {
	if d <= 0 {
		return Position{}
	}
	return Position{PositionAgo, int64(d)}
}

// Since begins with what the broker stored at t or later, by its own clock and in whole seconds; where
// that is nothing, with what comes next.
func Since(t time.Time) Position {
	if t.Unix() < 0 { // long before any broker
		t = time.Unix(0, 0)
	}
	return Position{PositionSince, t.UnixNano()}
}

// First begins with the oldest message that the stream has.
func First() Position { return Position{kind: PositionFirst} }

// Last begins with the last message that the stream has or, where the broker keeps
// messages together, with some that precede it. In an empty stream it is what comes
// next.
func Last() Position { return Position{kind: PositionLast} }

// At begins with the message at this offset or, where there is none, with the next
// behind it. A negative offset is taken for 0.
func At(offset int64) Position { return Position{PositionAt, max(offset, 0)} }

// Kind tells how the position is given.
func (p Position) Kind() PositionKind { return p.kind }

// Ago is how far back a position of PositionAgo lies; of another kind, 0.
func (p Position) Ago() time.Duration {
	if p.kind != PositionAgo {
		return 0
	}
	return time.Duration(p.n)
}

// Since is the time of a position of PositionSince; of another kind, the zero time.
func (p Position) Since() time.Time {
	if p.kind != PositionSince {
		return time.Time{}
	}
	return time.Unix(0, p.n)
}

// Offset is where a position of PositionAt lies; of another kind, -1.
func (p Position) Offset() int64 {
	if p.kind != PositionAt {
		return -1
	}
	return p.n
}
