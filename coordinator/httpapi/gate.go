package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
)

// How many answers that grow with the fleet, the quotas or the history are made at one time. Each takes
// several times its own size of memory while it is made, and a turn of the loop that decides.
const (
	mostReads  = 4 // of the fleet, tasks, and pages of quotas
	mostLarge  = 2 // of quotas: a tree, or more than a page
	mostPast   = 2 // questions to the database of the history
	mostScrape = 2
	// What waits takes a goroutine and a connection; what is submitted up to max_message_bytes.
	mostWaits   = 256 // for the end of a task
	mostSubmits = 32
	// turnWait is how long a question waits for its turn before it is to be asked again.
	turnWait = 2 * time.Second
	// quickAnswer is the size in bytes of an answer that leaves this machine whatever its reader does. A
	// larger one keeps its turn until it has been read: what waits for slow readers is bounded, too.
	quickAnswer = 1 << 20
)

// gate lets in as many as it has room for; the others wait for their turn.
type gate chan struct{}

// gates are apart from each other, so that a slow database, or large answers, keep no others waiting.
type gates struct{ reads, larges, past, scrapes, waits, submits gate }

func newGates() gates {
	return gates{
		reads: make(gate, mostReads), larges: make(gate, mostLarge), past: make(gate, mostPast),
		scrapes: make(gate, mostScrape), waits: make(gate, mostWaits), submits: make(gate, mostSubmits),
	}
}

// few lets requests in one after another; those that wait for too long are to ask again.
func (g gate) few(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.enter(w, r) {
			return
		}
		t := &turn{ResponseWriter: w, gate: g}
		defer t.leave()
		serve(t, r)
	}
}

// enter waits for a turn; false: it has been answered that there is none.
func (g gate) enter(w http.ResponseWriter, r *http.Request) bool {
	select {
	case g <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(turnWait)
	defer late.Stop()
	select {
	case g <- struct{}{}:
		return true
	case <-r.Context().Done():
	case <-late.C:
	}
	busy(w)
	return false
}

func busy(w http.ResponseWriter) {
	web.Problem(w, http.StatusServiceUnavailable, "Busy",
		"As many answers of this kind are being made as may be at one time; ask again in a moment, or for less.")
}

// turn is an answer that is being made.
type turn struct {
	http.ResponseWriter
	gate gate
	left bool
}

// WriteHeader comes when the answer has been made.
func (t *turn) WriteHeader(status int) {
	if size, err := strconv.Atoi(t.Header().Get("Content-Length")); err == nil && size <= quickAnswer {
		t.leave()
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *turn) leave() {
	if !t.left {
		t.left = true
		<-t.gate
	}
}

// Unwrap is for http.ResponseController.
func (t *turn) Unwrap() http.ResponseWriter { return t.ResponseWriter }
