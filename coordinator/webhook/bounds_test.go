package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// A receiver that hangs costs 256 events at most, and the oldest go. When it is back it has the
// others, in order.
func TestTheOldestAreDropped(t *testing.T) {
	const sent = 300
	inRig(t, Options{}, func(n int, w http.ResponseWriter, q *http.Request) {
		if n == 1 {
			<-q.Context().Done()
		}
	}, func(r *rig) {
		r.send("quota-1") // is being tried
		r.heard()
		for i := 2; i <= sent; i++ {
			r.send(fmt.Sprint("quota-", i))
		}
		if n := r.metric("waiting", ""); n != mostWaiting {
			t.Errorf("%v wait, want %d", n, mostWaiting)
		}
		// 299 wait, 43 too many: 2 to 44. After 15 s the first try fails, and 1 is the oldest: it goes, too.
		time.Sleep(tryLimit + time.Second)
		all := r.heard()
		if len(all) != 1+mostWaiting || all[1].header.Get("webhook-id") != "quota-45" || all[len(all)-1].header.Get("webhook-id") != "quota-300" {
			t.Errorf("%d requests, the second %v, the last %v", len(all), all[1].header, all[len(all)-1].header)
		}
		r.ends(map[string]float64{resultDelivered: mostWaiting, resultDropped: sent - mostWaiting})
		if n := strings.Count(r.log.String(), "too many events wait"); n != 1 {
			t.Errorf("%d lines of what was dropped", n)
		}
	})
}

// The process ends while the receiver hangs: it is over in three seconds, and the log says what was
// not told.
func TestEndsWhileTheReceiverHangs(t *testing.T) {
	inRig(t, Options{}, func(_ int, _ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, func(r *rig) {
		r.send("quota-1")
		r.send("quota-2")
		r.heard()
		begun := time.Now()
		r.stop()
		<-r.ended
		if took := time.Since(begun); took > lastWords {
			t.Errorf("it took %v to end", took)
		}
		r.ends(map[string]float64{resultUnsent: 2})
		if !strings.Contains(r.log.String(), `"events":2`) {
			t.Errorf("log:\n%s", r.log)
		}
	})
}

// What comes in the last moment is tried once, what has failed before is not tried again.
func TestLastWords(t *testing.T) {
	inRig(t, Options{}, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}, func(r *rig) {
		r.send("quota-1")
		r.heard()
		r.stop()
		r.send("quota-2")
		<-r.ended
		if all := r.heard(); len(all) != 2 || all[1].header.Get("webhook-id") != "quota-2" {
			t.Errorf("heard %+v", all)
		}
		r.ends(map[string]float64{resultDelivered: 1, resultUnsent: 1})
	})
}

// Send never waits, whoever else sends and whatever the receiver does.
func TestSendNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{URL: "http://nobody.invalid", Registry: prometheus.NewRegistry(), Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		done := make(chan struct{})
		for range 8 {
			go func() {
				for range 1000 {
					s.Send(Message{ID: "quota-1"}) // nobody runs it
				}
				done <- struct{}{}
			}()
		}
		for range 8 {
			<-done
		}
		if time.Since(begun) != 0 || s.count() != mostWaiting {
			t.Errorf("after %v %d wait", time.Since(begun), s.count())
		}
	})
}
