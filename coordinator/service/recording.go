package service

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// recording writes down every input of the engine in a term, so that its
// decisions can be replayed. It begins with a snapshot from which a new engine is
// filled: what the engine that followed knew beyond that, it receives again. It belongs
// to the loop's goroutine.
type recording struct {
	ledger   *ledger
	recorder *journal.Recorder
	out      chan<- []byte // to the goroutine that writes
	over     bool
}

// inputsAhead is how many messages of inputs may wait to be written. If the broker
// cannot keep up with them the recording ends: tasks do not wait for it.
const inputsAhead = 64

// latestReports are the latest heartbeats of the agents of the fleet.
type latestReports struct {
	of    map[coordinator.AgentID]coordinator.AgentReport
	sweep int // so many, and those that have left the fleet are looked for
}

// reportsLeft is how many reports may be kept of agents that have left, at least.
const reportsLeft = 64

func newLatestReports() *latestReports {
	return &latestReports{of: make(map[coordinator.AgentID]coordinator.AgentReport), sweep: reportsLeft}
}

// note keeps a report that the engine, which follows, uses: it uses none of an unknown agent.
func (l *latestReports) note(e *engine.Engine, ev coordinator.Event) {
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

// each visits all of them, by the order of the ids.
func (l *latestReports) each(tell func(coordinator.AgentReport)) {
	if l == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(l.of)) {
		tell(l.of[id])
	}
}

// records reports whether inputs are to be recorded.
func (r *session) records() bool { return r.ledger != nil && r.s.options.Config.RecordInputs }

// beginRecording puts a new engine in the place of the one that has followed, filled
// from a snapshot that is written to the journal, and records what it receives.
func (r *session) beginRecording(now time.Time) {
	lp, name := r.s.loop, randomID()
	image, heard := lp.engine.Image(now), lp.heard
	lp.recording = &recording{
		ledger: r.ledger, recorder: journal.NewRecorder(name, r.s.options.Config.RecordInputsBytes),
		out: r.ledger.writer.inputs,
	}
	lp.engine = engine.New()
	lp.engine.Follow()
	tell := func(ev coordinator.Event) { // the world has heard what follows
		lp.recording.add(now, ev)
		lp.engine.Apply(now, ev, nil)
		lp.commits.take(lp.engine, nil)
	}
	tell(coordinator.PolicyChanged{Policy: r.s.config.Load().Policy()})
	image.Records(func(rec coordinator.Record) bool {
		if m, ok := rec.(*coordinator.Remembered); ok { // the image uses it again
			one := *m
			rec = &one
		}
		lp.engine.Fold(now, rec)
		return true
	})
	r.ledger.snapshot.order(now, name)
	r.ledger.owed.Add(1)
	r.ledger.writer.queue <- written{image: image, name: name, owed: true}
	lp.engine.Lead(now)
	lp.engine.Record(true)
	heard.each(func(r coordinator.AgentReport) { tell(coordinator.AgentReported{Report: r}) })
}

// add records what the engine is about to be given.
func (rec *recording) add(now time.Time, ev coordinator.Event) {
	if rec.over {
		return
	}
	if !rec.recorder.Add(now, ev) {
		rec.flush()
		rec.end("journal.record_inputs_max_bytes is used up")
		return
	}
	rec.write(false)
}

// flush writes what has been recorded so far.
func (rec *recording) flush() {
	if !rec.over {
		rec.write(true)
	}
}

func (rec *recording) write(all bool) {
	l := rec.ledger
	for {
		body, ok := rec.recorder.Take(nil, journal.Header{
			Epoch: l.epoch, ResultOffset: l.offset.Load(), SnapshotOffset: l.snapshot.complete.Load(),
		}, all)
		if !ok {
			return
		}
		select {
		case rec.out <- body:
			l.owed.Add(1)
		default:
			rec.end("the broker does not take it quickly enough")
			return
		}
	}
}

// stop ends the recording because its term does: what has been recorded is written. Nothing that arrives
// later leads to a decision.
func (rec *recording) stop() {
	rec.flush()
	rec.over = true
}

func (rec *recording) end(why string) {
	rec.over = true
	rec.ledger.r.s.log.Warn().Str("why", why).Msg("inputs are recorded no more; the recording so far can be replayed")
}
