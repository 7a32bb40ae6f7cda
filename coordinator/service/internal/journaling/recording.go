package journaling

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// Recording writes down every input of the engine in a term, so that its
// decisions can be replayed. It begins with a snapshot from which a new engine is
// filled: what the engine that followed knew beyond that, it receives again. It belongs
// to the loop's goroutine.
type Recording struct {
	ledger   *Ledger
	name     string // and of its snapshot
	recorder *journal.Recorder
	over     bool
}

// inputsAhead is how many messages of inputs may wait to be written. If the broker
// cannot keep up with them the recording ends: tasks do not wait for it.
const inputsAhead = 64

// Reports are the latest heartbeats of the agents of the fleet.
type Reports struct {
	of    map[coordinator.AgentID]coordinator.AgentReport
	sweep int // so many, and those that have left the fleet are looked for
}

// reportsLeft is how many reports may be kept of agents that have left, at least.
const reportsLeft = 64

// NewReports returns none.
func NewReports() *Reports {
	return &Reports{of: make(map[coordinator.AgentID]coordinator.AgentReport), sweep: reportsLeft}
}

// Note keeps a report that the engine, which follows, uses: it uses none of an unknown agent.
func (l *Reports) Note(e *engine.Engine, ev coordinator.Event) {
	r, ok := ev.(coordinator.AgentReported)
	if !ok || !e.HasAgent(r.Report.Agent) {
		return
	}
	l.of[r.Report.Agent] = r.Report
	if len(l.of) > l.sweep {
		maps.DeleteFunc(l.of, func(id coordinator.AgentID, _ coordinator.AgentReport) bool { return !e.HasAgent(id) })
		l.sweep = 2*len(l.of) + reportsLeft
	}
}

// Each visits all of them, by the order of the ids.
func (l *Reports) Each(tell func(coordinator.AgentReport)) {
	if l == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(l.of)) {
		tell(l.of[id])
	}
}

// NewRecording returns one of most bytes, which is nothing yet without the snapshot that it Begins with.
func (l *Ledger) NewRecording(most int64) *Recording {
	name := RandomID()
	return &Recording{ledger: l, name: name, recorder: journal.NewRecorder(name, most)}
}

// Begin has the snapshot written from which the recording goes on. The image is the ledger's from then on.
func (rec *Recording) Begin(now time.Time, image *engine.Image) {
	rec.ledger.Snapshots.Order(now, rec.name)
	rec.ledger.owed.Add(1)
	rec.ledger.queue <- written{image: image, name: rec.name, owed: true}
}

// Inputs has a message of inputs written; false: too many wait for that.
func (l *Ledger) Inputs(body []byte) bool {
	select {
	case l.inputs <- body:
		l.owed.Add(1)
		return true
	default:
		return false
	}
}

// Owes reports whether a part of a recording is still to be given to the transport.
func (l *Ledger) Owes() bool { return l.owed.Load() != 0 }

// Add records what the engine is about to be given.
func (rec *Recording) Add(now time.Time, ev coordinator.Event) {
	if rec.over {
		return
	}
	if !rec.recorder.Add(now, ev) {
		rec.Flush()
		rec.end("journal.record_inputs_max_bytes is used up")
		return
	}
	rec.write(false)
}

// Flush writes what has been recorded so far.
func (rec *Recording) Flush() {
	if !rec.over {
		rec.write(true)
	}
}

func (rec *Recording) write(all bool) {
	l := rec.ledger
	for {
		body, ok := rec.recorder.Take(nil, journal.Header{
			Epoch: l.epoch, ResultOffset: l.offset.Load(), SnapshotOffset: l.Snapshots.complete.Load(),
		}, all)
		if !ok {
			return
		}
		if !l.Inputs(body) {
			rec.end("the broker does not take it quickly enough")
			return
		}
	}
}

// Stop ends the recording because its term does: what has been recorded is written. Nothing that arrives
// later leads to a decision.
func (rec *Recording) Stop() {
	rec.Flush()
	rec.over = true
}

func (rec *Recording) end(why string) {
	rec.over = true
	rec.ledger.Log.Warn().Str("why", why).Msg("inputs are recorded no more; the recording so far can be replayed")
}
