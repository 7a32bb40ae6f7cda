package service

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// noise is a kind of log line that a sender can provoke as often as it likes.
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
	noiseUsage
	noiseUnpriced
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
	mu       sync.Mutex
	since    time.Time
	lines    int
	heldBack uint64 // since the last line that was let through
}

// allow reports whether a line may be written, and how many of its kind were not
// since the one before.
func (g *noiseGate) allow(now time.Time) (ok bool, heldBack uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.since) >= time.Second {
		g.since, g.lines = now, 0
	}
	if g.lines >= noiseLines {
		g.heldBack++
		return false, 0
	}
	g.lines++
	heldBack, g.heldBack = g.heldBack, 0
	return true, heldBack
}

// noiseNames say of which kind lines were held back.
var noiseNames = [numNoises]string{
	noiseParked:         "parked messages",
	noiseRefusedTask:    "refused tasks",
	noiseDuplicate:      "duplicates",
	noiseReplyTo:        "refused reply_to",
	noiseUnencodable:    "messages that cannot be sent",
	noiseNotTaken:       "notices that the broker does not take",
	noiseInvalidStatus:  "invalid heartbeats",
	noiseInvalidResult:  "invalid results",
	noiseInvalidRequest: "invalid bids and claims",
	noiseWrongAgent:     "results of another agent",
	noiseIdleCancel:     "cancels without effect",
	noiseUntold:         "agents that cannot be told",
	noiseQueue:          "agents' queues",
	noiseQueueThere:     "agents' queues that are there",
	noiseTakeBack:       "queues taken back",
	noiseLane:           "lanes",
	noiseAuction:        "auctions",
	noiseUsage:          "usage",
	noiseUnpriced:       "calls of models without a price",
	noiseUncharged:      "usage that is charged to no tenant",
	noiseUnasked:        "calls that no leader has answered",
	noiseAlone:          "calls without a leader",
	noiseFault:          "faults of the program",
}

// after returns how many lines were held back when the flood is over; no other line will say so.
func (g *noiseGate) after(now time.Time) (heldBack uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.since) < noiseQuiet {
		return 0
	}
	heldBack, g.heldBack = g.heldBack, 0
	return heldBack
}

// noiseQuiet is how long after a flood its last lines are accounted for.
const noiseQuiet = 5 * time.Second

// afterFloods logs how many lines were held back at the end of each flood.
func (o *observer) afterFloods() {
	for kind := range o.noise {
		if n := o.noise[kind].after(o.s.now()); n > 0 {
			o.log.Warn().Uint64("held_back", n).Msg(heldBackText(n, noiseNames[kind]))
		}
	}
}

func heldBackText(n uint64, kind string) string {
	if n == 1 {
		return "1 more line held back: " + kind
	}
	return fmt.Sprintf("%d more lines held back: %s", n, kind)
}

// gated begins a line of a kind that may come in floods; what is done to it goes
// nowhere when there were too many a moment ago. held_back says how many more of its kind were
// not written since the last one.
func (o *observer) gated(kind noise, level zerolog.Level) *zerolog.Event {
	ok, heldBack := o.noise[kind].allow(o.s.now())
	if !ok {
		return nil // zerolog: a nil event is one that is not written
	}
	e := o.log.WithLevel(level)
	if heldBack > 0 {
		e = e.Uint64("held_back", heldBack)
	}
	return e
}
