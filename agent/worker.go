package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// maxBody is the largest dispatch that is read, in bytes: what the coordinator can
// be configured to accept as a task, and RabbitMQ 4 to carry.
const maxBody = 16 << 20

// worker is the agent at work: what it knows of its dispatches outlives every
// session. mu guards all below it and is never held while waiting, publishing, or
// in a handler.
type worker struct {
	cfg         Config
	handle      Handler      // one of the two
	handleBatch BatchHandler // is nil
	decoder     *messages.Decoder
	log         *slog.Logger
	instance    string // names this process in heartbeats
	// base carries the values of Run's ctx to the handlers; it never ends.
	base context.Context

	leaving  chan struct{} // closed when the drain begins
	farewell chan struct{} // capacity 1: a heartbeat has said so
	changed  chan struct{} // capacity 1: something has ended
	wake     chan struct{} // capacity 1: a heartbeat is wanted soon
	offers   offerQueue    // that wait for the Bidder
	begun    chan struct{} // capacity 1: a task has begun that no heartbeat lists

	mu       sync.Mutex
	link     *link // nil between sessions
	draining bool
	last     uint64 // number of the latest dispatch
	open     map[string]*dispatch
	numbered map[uint64]*dispatch // the same, by number
	waiting  []*dispatch          // of them, those that have no slot yet
	running  map[*dispatch]struct{}
	batches  map[string]*companions // by batch id, those of which members are still to come
	// runs is by task the dispatch under which it runs, or waits to, until the result
	// is confirmed and the handler has returned.
	runs     map[messages.TaskID]*dispatch
	watching bool               // begun was signalled since the latest heartbeat
	ended    memory[ending]     // by dispatch id, those whose result is confirmed
	recalled memory[withdrawal] // withdrawn before they came

	// estimator measures the capacity, which heartbeats tell at least that often.
	estimator  *balance.Estimator
	tellsEvery time.Duration

	bids    openBids
	means   memory[mean] // durations of tasks that succeeded, by type; for the Bidder
	pulling *pulling     // nil: the agent claims nothing
	metrics *metrics     // nil: nothing is counted; has locks of its own
}

// How much is remembered of what is over. Of endings with the longest ids, texts and
// names, about 1.3 KB each, 8 MiB hold 6,500.
const (
	maxEnded      = 10_000  // dispatches
	maxEndedBytes = 8 << 20 // of them all
	maxRecalled   = 10_000  // withdrawals
	recallFor     = time.Hour
)

// dispatch is one attempt to give this agent one task, from its delivery until the
// broker has confirmed its result. Everything but key, number, task and names is
// guarded by worker.mu.
type dispatch struct {
	key    string // the dispatch id; of a message that cannot be read, a key of our own
	number uint64 // in the order of arrival; the token of its result
	task   *Task  // nil for a message that cannot be read
	marked bool   // by a coordinator: an earlier copy may have reached an agent
	// names are what the result repeats of the dispatch.
	names messages.TaskResult

	// run is the dispatch of the same task whose run this one has joined, nil when it
	// has its own; joined are those that have joined this one's, oldest first.
	run    *dispatch
	joined []*dispatch
	// superseded: a newer dispatch has joined the run. The result goes out under this
	// one only where its message lies with us.
	superseded bool

	batch   *companions // of which it is; nil: it goes alone
	message delivery    // that lies with us unacknowledged
	cancel  context.CancelCauseFunc
	ctx     *runContext // of its handler; nil: waiting for a slot
	// progress is what the handler has said last and is not told yet, nil for nothing; toldAt is when it was told last.
	progress *messages.TaskProgress
	toldAt   time.Time
	beganAt  time.Time // zero: waiting for a slot
	listed   bool      // a heartbeat has named it
	running  bool      // its handler has not returned
	verdict  *verdict  // nil: not ended
	endedAt  time.Time
	sentBy   *link // the session that has published the result
}

// delivery is a message that the broker waits to hear about; the zero value is none.
type delivery struct {
	link *link
	tag  bus.Tag
}

// withdrawal is what is remembered of a task.cancel.
type withdrawal struct {
	reason string
	at     time.Time
}

func newWorker(ctx context.Context, cfg Config, handle Handler, handleBatch BatchHandler) (*worker, error) {
	decoder, err := messages.StandardDecoder(maxBody)
	if err != nil {
		return nil, fmt.Errorf("compile the embedded schemas: %w", err)
	}
	estimator, tellsEvery, err := newEstimator(cfg.Pull)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be used: Pull: %w", err)
	}
	pulling, err := newPulling(cfg)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be used: Pull: %w", err)
	}
	metrics, err := newMetrics(cfg)
	if err != nil {
		return nil, err
	}
	w := &worker{
		cfg: cfg, handle: handle, handleBatch: handleBatch, decoder: decoder, instance: rand.Text(),
		log:     cfg.Logger.With(slog.String("agent_id", cfg.ID)),
		base:    context.WithoutCancel(ctx),
		leaving: make(chan struct{}), farewell: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), begun: make(chan struct{}, 1),
		open: make(map[string]*dispatch), numbered: make(map[uint64]*dispatch), running: make(map[*dispatch]struct{}),
		batches:  make(map[string]*companions),
		runs:     make(map[messages.TaskID]*dispatch),
		ended:    memory[ending]{limit: maxEnded, bytes: maxEndedBytes, size: ending.size},
		recalled: memory[withdrawal]{limit: maxRecalled},
		means:    memory[mean]{limit: maxTypes},
		pulling:  pulling, metrics: metrics,
		estimator: estimator, tellsEvery: tellsEvery,
	}
	if cfg.Bidder != nil {
		w.offers.some = make(chan struct{}, 1)
	}
	return w, nil
}

// signal wakes the goroutine that waits on a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// attach makes l the session that results go to, and sends those that no session
// has brought home.
func (w *worker) attach(l *link) {
	w.mu.Lock()
	w.link = l
	open := slices.SortedFunc(maps.Values(w.open), byNumber)
	w.mu.Unlock()
	for _, d := range open {
		w.publish(d)
	}
}

// detach ends what belongs to the session alone: what has not begun will be delivered again, or go to
// another agent.
func (w *worker) detach(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.link == l {
		w.link = nil
	}
	w.forgetWaiting()
}

// forgetWaiting gives up the deliveries that have not begun. mu is held.
func (w *worker) forgetWaiting() {
	for _, d := range w.waiting {
		for _, j := range d.joined {
			w.forget(j)
		}
		w.forget(d)
	}
	w.waiting = nil
	w.stopCollecting()
}

// forget takes a dispatch out of the open ones. mu is held.
func (w *worker) forget(d *dispatch) {
	delete(w.open, d.key)
	delete(w.numbered, d.number)
	w.leaveTask(d)
}

// leaveTask lets the task run anew, if nothing is left of this run of it. mu is held.
func (w *worker) leaveTask(d *dispatch) {
	if w.runs[d.names.TaskID] == d && !d.running && w.numbered[d.number] != d {
		delete(w.runs, d.names.TaskID)
	}
}

func byNumber(a, b *dispatch) int { return cmp.Compare(a.number, b.number) }
