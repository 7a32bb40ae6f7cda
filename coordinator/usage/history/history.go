package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// Options are what a History is made of.
type Options struct {
	Bus bus.Bus
	// Session is how its connections appear in the broker's list.
	Session string
	// Place is a SQLite file or the URL of a PostgreSQL database. ByDefault: it was not configured; if it
	// cannot be opened, the coordinator goes without.
	Place     string
	ByDefault bool
	// Zone gives the time zone of the quotas in force, nil for UTC; false while there are none.
	// It is called from a goroutine of its own, again and again.
	Zone   func() (*time.Location, bool)
	Logger zerolog.Logger
}

// History keeps a database up to date. Its methods are safe for concurrent use.
type History struct {
	o        Options
	rebuilds chan *rebuild
	// found: there is a place for it, even if something is wrong there. Run's own.
	found bool

	mu     sync.Mutex
	store  *store.Store
	state  string
	detail string
	told   string // what was logged last
	// follows: the mark was found in the journal that there is.
	follows bool
}

// New makes one that does nothing until it runs.
func New(o Options) *History {
	return &History{o: o, rebuilds: make(chan *rebuild), state: Waiting, detail: "no quotas are configured"}
}

// How long it waits before it tries again.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// retrySeldom is for what does not go away by itself.
	retrySeldom = 5 * time.Minute
)

// errMoved: another coordinator writes.
var errMoved = store.ErrMoved

// Run follows the journal until ctx ends. It never fails: what is wrong is in the log,
// once, and by State.
func (h *History) Run(ctx context.Context) {
	defer h.close()
	pause := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := h.once(ctx)
		var unusable *store.UnusableError
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errStop):
			return
		case err == nil:
			pause = 0
		case errors.As(err, &unusable):
			pause = retrySeldom
		case time.Since(began) > retryMost:
			pause = retryFirst
		default:
			pause = min(max(retryFirst, 2*pause), retryMost)
		}
		h.fail(err)
		h.rest(ctx, pause)
	}
}

// rest waits before the next try; an order to make it anew ends the wait.
func (h *History) rest(ctx context.Context, pause time.Duration) {
	over := time.After(pause)
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case r := <-h.rebuilds:
			if h.rebuild(ctx, r); r.err == nil {
				return
			}
			h.set(Failing, r.err.Error())
		}
	}
}

// once follows for as long as it goes well.
func (h *History) once(ctx context.Context) error {
	for _, there := h.o.Zone(); !there; _, there = h.o.Zone() {
		h.set(Waiting, "no quotas are configured")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryFirst):
		}
	}
	h.opens()
	s, err := h.opened(ctx)
	if err != nil {
		// What can be mended is logged until it is, also if no history was configured.
		var unusable *store.UnusableError
		h.found = h.found || errors.As(err, &unusable) || store.Passes(err)
		if h.o.ByDefault && ctx.Err() == nil && !h.found {
			h.set(Stopped, err.Error())
			h.o.Logger.Warn().Err(err).Msg(
				"no history of usage is kept: name a file or a PostgreSQL database in TASKBUS_HISTORY, or set it to off")
			return errStop
		}
		return err
	}
	h.found = true
	var order *rebuild
	if err = h.follow(ctx, s); errors.Is(err, usage.ErrOtherJournal) {
		err = h.adopt(ctx, s)
	}
	if errors.As(err, &order) {
		h.rebuild(ctx, order)
		return nil
	}
	if errors.Is(err, errMoved) {
		h.set(Beside, "another coordinator writes to "+s.Name())
		return h.beside(ctx, s)
	}
	return err
}

// opened is the database, opened if it was not, or if its file is not there any more.
func (h *History) opened(ctx context.Context) (*store.Store, error) {
	h.mu.Lock()
	s := h.store
	h.mu.Unlock()
	if s != nil {
		gone := s.Gone()
		if gone == nil {
			return s, nil
		}
		h.o.Logger.Warn().Err(gone).Msg(
			"the history of usage is opened anew; what was in the file it makes anew from the journal, as far as that " +
				"reaches back")
		h.mu.Lock()
		h.store = nil
		h.mu.Unlock()
		_ = s.Close() // what is in it could not be found
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s, err := store.Open(ctx, h.o.Place)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.store = s
	h.mu.Unlock()
	h.o.Logger.Info().Str("place", s.Name()).Msg("the history of usage is kept here")
	return s, nil
}

func (h *History) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != Stopped {
		h.state, h.detail = Stopped, "the coordinator is ending"
	}
	if h.store != nil {
		_ = h.store.Close() // every change in it was committed
		h.store = nil
	}
}

// opens notes that there are quotas, and nothing else is known yet: a database that is locked may
// take its time.
func (h *History) opens() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == Waiting {
		h.detail = "the history is being opened"
	}
}

// reads notes that the journal is being read. What has failed before may fail again when it is to be
// written: it follows when that goes well.
func (h *History) reads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follows = true; h.told == "" {
		h.state, h.detail = Following, ""
	}
}

func (h *History) set(state, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if state == Following && h.told != "" {
		h.told = ""
		h.o.Logger.Info().Msg("the history of usage follows the journal again")
	}
	h.state, h.detail = state, detail
	h.follows = h.follows || state == Following || state == Beside
}

// fail logs why it does not follow, once for each reason.
func (h *History) fail(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	h.mu.Lock()
	again := h.told == text
	h.state, h.detail = Failing, text
	if errors.Is(err, errEnded) || errors.Is(err, bus.ErrNoQueue) || errors.Is(err, usage.ErrOtherJournal) {
		h.follows = false
	}
	if errors.Is(err, bus.ErrNoQueue) {
		h.state, h.detail, again = Waiting, "there is no journal yet: "+text, true
	} else {
		h.told = text
	}
	h.mu.Unlock()
	if !again {
		h.o.Logger.Warn().Err(err).Msg(
			"the history of usage does not follow the journal; it tries again, and the coordinator goes on without")
	}
}

// Status is how it is.
type Status struct {
	State, Detail string
	// Follows: the mark is in the journal that there is, as far as is known.
	Follows bool
	// Place of the database, for people; empty until it is open.
	Place string
	Mark  usage.Mark
	Gaps  []usage.Gap
}
