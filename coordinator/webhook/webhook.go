package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	mostWaiting  = 256              // events; then the oldest goes
	atOnce       = 4                // tries; those of one subject one after another
	tryLimit     = 15 * time.Second // for one try
	answerLimit  = time.Second      // for the body of an answer, which says nothing
	backoffFirst = time.Second      // doubles with each try
	backoffMost  = 10 * time.Minute
	mostAsked    = time.Hour      // of what a receiver may ask for by Retry-After
	longestTried = 24 * time.Hour // then an event is given up
	// lastWords is how long what was never tried, and the try at hand, may take when the process ends.
	lastWords = 3 * time.Second
)

// Options are what a Sender is made of.
type Options struct {
	// URL of the receiver, http or https.
	URL string
	// Keys each sign every event, so that a receiver can change from one to another; none: nothing is
	// signed.
	Keys     [][]byte
	Format   Format
	Registry prometheus.Registerer
	Logger   zerolog.Logger
}

// Sender sends events to one receiver. Its methods are safe for concurrent use.
type Sender struct {
	o       Options
	host    string // of the URL, for people
	client  *http.Client
	metrics *metrics
	signal  chan struct{} // capacity 1: there is something to send
	// dropping: the log has said that events are dropped.
	dropping atomic.Bool

	mu      sync.Mutex
	last    uint64      // delivery
	waiting []*delivery // the oldest first; without those that are being tried
	ended   bool        // Run has returned, or is about to: nothing waits any more

	// The rest belongs to Run's goroutine.
	inHand  map[string]bool // the subjects of the tries at hand
	paused  time.Time       // the receiver wants nothing before
	failing bool            // and the log has said so
}

// delivery is an event on its way.
type delivery struct {
	Message
	number     uint64
	since, due time.Time // put down; to be tried (again)
	tries      int
}

// New makes a sender, which sends nothing until it runs. The error never has the URL's path.
func New(o Options) (*Sender, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the webhook's URL is not an http:// or https:// URL with a host")
	}
	s := &Sender{
		o: o, host: u.Host, signal: make(chan struct{}, 1), inHand: make(map[string]bool),
		client: &http.Client{
			// Events are rare: no connection is kept for the next one.
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
				MaxResponseHeaderBytes: mostAnswer},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if s.metrics, err = newMetrics(o.Registry, func() float64 { return float64(s.count()) }); err != nil {
		return nil, fmt.Errorf("register the metrics of the webhook: %w", err)
	}
	return s, nil
}

// count is how many wait.
func (s *Sender) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// Host is the receiver's, with its port if it has one: what may be shown of the URL.
func (s *Sender) Host() string { return s.host }

// Send puts an event down, and keeps it. It never blocks. After the end of Run nothing is sent: the
// event counts as unsent, and the log says so.
func (s *Sender) Send(m Message) {
	now := time.Now()
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		s.unsent(1)
		return
	}
	s.last++
	dropped := s.put(&delivery{Message: m, number: s.last, since: now, due: now})
	s.mu.Unlock()
	s.drop(dropped)
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// put has a delivery wait in its place, and gives the one that has to go for it. s.mu is held.
func (s *Sender) put(d *delivery) (dropped *delivery) {
	at, _ := slices.BinarySearchFunc(s.waiting, d.number,
		func(w *delivery, n uint64) int { return cmp.Compare(w.number, n) })
	s.waiting = slices.Insert(s.waiting, at, d)
	if len(s.waiting) > mostWaiting {
		dropped, s.waiting = s.waiting[0], slices.Delete(s.waiting, 0, 1)
	}
	return dropped
}

// Run sends until ctx ends. What was sent before and never tried has one short try then; what is sent
// while these tries last has one, too. Nothing is lost without being counted and logged.
func (s *Sender) Run(ctx context.Context) {
	trying, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })()
	timer := time.NewTimer(0)
	defer timer.Stop()
	answers := make(chan answer, atOnce)
	for trying.Err() == nil || len(s.inHand) > 0 {
		d, wait := (*delivery)(nil), time.Hour
		if trying.Err() == nil {
			d, wait = s.next(time.Now(), ctx.Err() != nil)
		}
		if d != nil {
			s.try(trying, d, answers)
			continue
		}
		ended := ctx.Done()
		if ctx.Err() != nil {
			if len(s.inHand) == 0 {
				break
			}
			ended = nil
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.signal:
		case a := <-answers:
			delete(s.inHand, a.of.Subject)
			s.answered(a)
		case <-ended:
		}
	}
	s.mu.Lock()
	left := len(s.waiting)
	s.waiting, s.ended = nil, true
	s.mu.Unlock()
	if left > 0 {
		s.unsent(left)
	}
}

// unsent counts and logs events that the end of the process has overtaken.
func (s *Sender) unsent(events int) {
	s.metrics.results.WithLabelValues(resultUnsent).Add(float64(events))
	s.o.Logger.Warn().Str("host", s.host).Int("events", events).
		Msg("the coordinator ends, and the webhook has not had these events")
}

// next takes the oldest delivery that may be tried now; nil: none for so long, or until a try at hand
// has ended. At the end there are those alone that were never tried.
func (s *Sender) next(now time.Time, ending bool) (*delivery, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	if len(s.inHand) == atOnce {
		return nil, wait
	}
	for i, d := range s.waiting {
		left := max(d.due.Sub(now), s.paused.Sub(now))
		switch {
		case ending && d.tries > 0, s.inHand[d.Subject]:
		case left <= 0:
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return d, 0
		default:
			wait = min(wait, left)
		}
	}
	return nil, wait
}

// again puts a delivery back that was not taken; at the earliest after what the receiver has asked
// for. why it was not, for people.
func (s *Sender) again(d *delivery, asked time.Duration, why string) {
	now := time.Now()
	if !s.failing {
		s.failing = true
		s.o.Logger.Warn().Str("host", s.host).Str("event_id", d.ID).Str("reason", why).
			Msg("the webhook does not take an event; it is tried again")
	}
	if asked > 0 {
		s.paused = now.Add(min(asked, mostAsked))
	}
	d.due = now.Add(backoff(d.tries))
	if max(d.due.Sub(d.since), s.paused.Sub(d.since)) > longestTried {
		s.lost(d, resultGivenUp, why)
		return
	}
	s.mu.Lock()
	dropped := s.put(d)
	s.mu.Unlock()
	s.drop(dropped)
}

// backoff is for how long a delivery waits after so many tries: the bound doubles with each, and
// chance takes up to half of it, so that not all come back at once.
func backoff(tries int) time.Duration {
	bound := backoffMost
	if tries < 16 {
		bound = min(backoffFirst<<(tries-1), backoffMost)
	}
	return bound/2 + rand.N(bound/2)
}

// drop writes down that an event had to go because too many wait, if there is one: in the log once
// until the receiver takes events again.
func (s *Sender) drop(d *delivery) {
	if d == nil {
		return
	}
	s.metrics.results.WithLabelValues(resultDropped).Inc()
	if !s.dropping.Swap(true) {
		s.o.Logger.Warn().Str("host", s.host).Str("event_id", d.ID).Int("most", mostWaiting).
			Msg("too many events wait for the webhook: the oldest are dropped, of which this is the first")
	}
}

// lost writes down that the receiver will not hear of an event.
func (s *Sender) lost(d *delivery, result, why string) {
	s.metrics.results.WithLabelValues(result).Inc()
	s.o.Logger.Warn().Str("host", s.host).Str("event_id", d.ID).Int("tries", d.tries).Str("result", result).
		Str("reason", why).
		Msg("the webhook has not had an event, and will not")
}
