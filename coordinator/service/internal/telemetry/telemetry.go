// Package telemetry answers "how do the parts of the shell log and count without a flood?"
//
// A sender can provoke some lines as often as it likes. Each kind of these has a gate of its own, which lets a few a
// second pass and says afterwards how many it held back: no flood hides what is said of other things.
//
// # What it must never do
//
// It knows no part of the shell: each names its own kinds.
package telemetry

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// LatencyBuckets reach from half a millisecond to the longest assignment timeout.
var LatencyBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// LinesPerSecond is how many lines of a kind are written in a second.
const LinesPerSecond = 5

// quiet is how long after a flood its last lines are accounted for.
const quiet = 5 * time.Second

// Log is the log of a coordinator, with the kinds of lines that may come in floods.
type Log struct {
	zerolog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds []*Kind
}

// New returns a log without kinds.
func New(log zerolog.Logger, now func() time.Time) *Log { return &Log{Logger: log, now: now} }

// Kind is a kind of log line that a sender can provoke as often as it likes. It is safe for concurrent use.
type Kind struct {
	log  *Log
	name string

	mu       sync.Mutex
	since    time.Time
	lines    int
	heldBack uint64 // since the last line that was let through
}

// Kind adds a kind. Its name, in the plural, says of what lines were held back.
func (l *Log) Kind(name string) *Kind {
	k := &Kind{log: l, name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = append(l.kinds, k)
	return k
}

// At begins a line; what is done to it goes nowhere when there were too many a moment ago. held_back says how many
// more of its kind were not written since the last one.
func (k *Kind) At(level zerolog.Level) *zerolog.Event {
	ok, heldBack := k.allow(k.log.now())
	if !ok {
		return nil // zerolog: a nil event is one that is not written
	}
	e := k.log.WithLevel(level)
	if heldBack > 0 {
		e = e.Uint64("held_back", heldBack)
	}
	return e
}

// allow reports whether a line may be written, and how many of its kind were not since the one before.
func (k *Kind) allow(now time.Time) (ok bool, heldBack uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.since) >= time.Second {
		k.since, k.lines = now, 0
	}
	if k.lines >= LinesPerSecond {
		k.heldBack++
		return false, 0
	}
	k.lines++
	heldBack, k.heldBack = k.heldBack, 0
	return true, heldBack
}

// after returns how many lines were held back when the flood is over; no other line will say so.
func (k *Kind) after(now time.Time) (heldBack uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.since) < quiet {
		return 0
	}
	heldBack, k.heldBack = k.heldBack, 0
	return heldBack
}

// AfterFloods logs how many lines were held back at the end of each flood. It is to be called every few seconds.
func (l *Log) AfterFloods() {
	l.mu.Lock()
	kinds := l.kinds
	l.mu.Unlock()
	for _, k := range kinds {
		if n := k.after(l.now()); n > 0 {
			l.Warn().Uint64("held_back", n).Msg(heldBackText(n, k.name))
		}
	}
}

func heldBackText(n uint64, kind string) string {
	if n == 1 {
		return "1 more line held back: " + kind
	}
	return fmt.Sprintf("%d more lines held back: %s", n, kind)
}
