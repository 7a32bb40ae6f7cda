package failover

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A witness asks the broker all the time for what costs it nothing. On a busy machine a
// broker may answer no client for seconds: what is promised of a take-over is promised of a
// broker that answers.
type witness struct {
	mu    sync.Mutex
	asked time.Time // the question at hand; zero: none
	stood []standstill
}

// standstill is a time in which the broker did not answer.
type standstill struct{ from, to time.Time }

// A question that takes less is answered at once; the next one is asked after a pause.
const (
	answerAtOnce = 200 * time.Millisecond
	askEvery     = 20 * time.Millisecond
)

// watch asks the broker until the context ends.
func (w *witness) watch(ctx context.Context, url string) {
	for ctx.Err() == nil {
		w.session(ctx, url)
		pause(ctx, askEvery)
	}
}

// session asks about an exclusive queue, which is on the node of the connection: that a
// cluster elects leaders is nothing that it would hear of.
func (w *witness) session(ctx context.Context, url string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(patience))
	ch, err := conn.Channel()
	if err != nil {
		return
	}
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	for ; err == nil && ctx.Err() == nil; pause(ctx, askEvery) {
		w.asks(time.Now())
		_, err = ch.QueueDeclarePassive(queue.Name, false, true, true, false, nil)
		w.answered(time.Now())
	}
}

func (w *witness) asks(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = now
}

func (w *witness) answered(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.asked) > answerAtOnce {
		w.stood = append(w.stood, standstill{w.asked, now})
	}
	w.asked = time.Time{}
}

// still is for how long of the time between the two the broker stood still.
func (w *witness) still(from, to time.Time) (d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.stood
	if now := time.Now(); !w.asked.IsZero() && now.Sub(w.asked) > answerAtOnce {
		all = append(all[:len(all):len(all)], standstill{w.asked, now})
	}
	for _, s := range all {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		d += max(0, end.Sub(begin))
	}
	return d
}
