package service

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// noise is a kind of log line that somebody can provoke as often as he likes.
type noise uint8

const (
	noiseParked noise = iota
	noiseRefusedTask
	noiseDuplicate
	noiseReplyTo
	noiseUnencodable
	noiseNotTaken
	noiseInvalidStatus
	noiseInvalidResult
	noiseInvalidRequest
	noiseWrongAgent
	noiseIdleCancel
	noiseUntold
	noiseQueue
	noiseQueueThere
	noiseTakeBack
	noiseLane
	noiseAuction
	noiseQuota
	noiseUsage
	noiseUncharged
	noiseUnasked
	noiseAlone
	noiseFault
	numNoises = iota
)

// noiseLines is how many lines of a kind are written in a second.
const noiseLines = 5

// noiseGate lets a few lines a second through, so that a flood of bad messages
// does not become a flood of log lines. Each kind has a gate of its own: no flood
// hides what is said of other things.
type noiseGate struct {
	mu      sync.Mutex
	since   time.Time
	lines   int
	leftOut uint64 // since the last line that was let through
}

// allow tells whether a line may be written, and how many of its kind were not
// since the one before.
func (g *noiseGate) allow(now time.Time) (ok bool, leftOut uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.since) >= time.Second {
		g.since, g.lines = now, 0
	}
	if g.lines >= noiseLines {
		g.leftOut++
		return false, 0
	}
	g.lines++
	leftOut, g.leftOut = g.leftOut, 0
	return true, leftOut
}

// gated begins a line of a kind that may come in floods; what is done to it goes
// nowhere when there were too many a moment ago. left_out says how many were not
// written since the last one of its kind.
func (o *observer) gated(kind noise, level zerolog.Level) *zerolog.Event {
	ok, leftOut := o.noise[kind].allow(o.s.now())
	if !ok {
		return nil // zerolog: a nil event is one that is not written
	}
	e := o.log.WithLevel(level)
	if leftOut > 0 {
		e = e.Uint64("left_out", leftOut)
	}
	return e
}
