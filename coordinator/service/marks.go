package service

import (
	"slices"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// How far results have been dealt with is written into their stream itself. While
// results come the leader puts a mark there each second, and each mark but the first
// vouches for the one before: the leader has read that one back, and the ends of all
// tasks whose results come before it are published. Who reads the stream's past later
// knows by that which results may not have been announced: those after the last mark
// that another vouches for. They are announced then, some for the second time if the
// leader died between publishing them and its next mark.

// markPeriod is the time between marks while results come; one that is not read back
// within markPatience periods was not taken by the broker.
const (
	markPeriod   = time.Second
	markPatience = 10
)

// marks is the writing side. The first mark is the session's fence.
type marks struct {
	mu       sync.Mutex
	readBack string // the latest of ours that was read back
	sent     string // on its way; empty: none
	waited   int    // periods since
	results  bool   // some have come since readBack
	open     bool   // some came before readBack, and no mark vouches for it yet
}

// came notes that a result was read.
func (m *marks) came() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = true
}

// read notes a mark that was read, and tells whether it is ours; first is the id of
// the session's fence.
func (m *marks) read(id, first string) (ours bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ours = id == first || id == m.sent; ours {
		m.readBack, m.sent, m.results, m.open = id, "", false, m.results
	}
	return ours
}

// next gives the mark to be written now and the one for which it vouches; false when
// there is nothing to be said.
func (m *marks) next() (id, vouchesFor string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waited++; m.readBack == "" || m.sent != "" && m.waited < markPatience || !m.results && !m.open {
		return "", "", false
	}
	m.sent, m.waited = randomID(), 0
	return m.sent, m.readBack, true
}

// markResults is the goroutine that writes marks. One goes through the loop and the
// outbox, behind everything that follows from the results before the mark for which
// it vouches.
func (r *session) markResults() {
	ticker := time.NewTicker(markPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-r.bus.Done():
			return
		case <-ticker.C:
		}
		if id, vouchesFor, ok := r.marks.next(); ok {
			p := r.mark(bus.StreamResult, id)
			p.Optional, p.CorrelationID = true, vouchesFor
			r.s.loop.enqueue(envelope{call: func(time.Time) { r.outbox.add(outgoing{event: &p}) }})
		}
	}
}

// mark is a message of our own in a stream.
func (r *session) mark(stream, id string) bus.Publication {
	return bus.Publication{
		Token: tokenIgnored, Key: stream,
		Properties: bus.Properties{
			ContentType: contentJSON, Type: typeFence, AppID: appID, MessageID: id,
			Timestamp: r.s.now(),
		},
		Body: []byte(`{"message_type":"coordinator.fence"}`),
	}
}

// maxPast bounds the results of the past that are kept back until it is known whether
// they were announced. Of more, the oldest count as not announced: rather twice than
// never.
const maxPast = 20_000

// pastResults is the reading side: results of the stream's past for which no mark
// vouches yet.
type pastResults struct {
	mu      sync.Mutex // held by onPast, and by whoever gives up waiting for the fence
	results []coordinator.Result
	before  map[string]int // how many of results come before a mark
}

func newPastResults() *pastResults { return &pastResults{before: make(map[string]int)} }

// add keeps a result back, and gives those that are kept no longer.
func (p *pastResults) add(r coordinator.Result) []coordinator.Result {
	p.results = append(p.results, r)
	if len(p.results) <= maxPast {
		return nil
	}
	return p.cut(maxPast / 2)
}

// mark notes a mark, and gives the results that were announced for certain.
func (p *pastResults) mark(id, vouchesFor string) (announced []coordinator.Result) {
	if n, ok := p.before[vouchesFor]; ok {
		announced = p.cut(n)
	}
	p.before[id] = len(p.results)
	return announced
}

// cut takes the first n results off. Marks before them are of no interest any more.
func (p *pastResults) cut(n int) []coordinator.Result {
	first := slices.Clone(p.results[:n])
	p.results = slices.Delete(p.results, 0, n)
	for id, before := range p.before {
		if before -= n; before < 0 {
			delete(p.before, id)
		} else {
			p.before[id] = before
		}
	}
	return first
}

// onMark takes a mark, or a fence, of ours or another coordinator's.
func (r *session) onMark(d *bus.Delivery) {
	r.past.mu.Lock()
	if !r.results.caughtUp.Load() && d.Exchange == "" { // agents write by the exchange taskbus, where they are kept to that
		r.postPast(r.past.mark(d.MessageID, d.CorrelationID), false)
	}
	r.past.mu.Unlock()
	if r.results.takes(d); r.results.caughtUp.Load() {
		r.endPast()
	}
	if r.marks.read(d.MessageID, r.results.id) { // so what was published before it has been read, too
		r.resultsReadTo.Store(&d.Timestamp)
	}
}

// onPast keeps a result of the past back; false when it is news.
func (r *session) onPast(result coordinator.Result) bool {
	r.past.mu.Lock()
	defer r.past.mu.Unlock()
	if r.results.caughtUp.Load() {
		return false
	}
	r.postPast(r.past.add(result), true)
	return true
}

// endPast has what was kept back counted as news: the past has been read, or is given
// up.
func (r *session) endPast() {
	r.past.mu.Lock()
	defer r.past.mu.Unlock()
	r.postPast(r.past.cut(len(r.past.results)), true)
}

func (r *session) postPast(results []coordinator.Result, untold bool) {
	for _, result := range results {
		r.s.loop.post(r.number, coordinator.ResultReported{Result: result, Untold: untold})
	}
}
