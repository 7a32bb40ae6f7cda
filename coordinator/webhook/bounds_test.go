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
		if len(all) != 1+mostWaiting || all[1].header.Get("webhook-id") != "quota-45" ||
			all[len(all)-1].header.Get("webhook-id") != "quota-300" {
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

// At the end the try at hand is finished, and what was never tried has one try; what has failed before
// has none.
func TestLastWords(t *testing.T) {
	inRig(t, Options{}, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			time.Sleep(lastWords / 2)
		}
	}, func(r *rig) {
		r.send("quota-1") // fails, and is to be tried again after half a second at least
		r.heard()
		r.send("quota-2") // is being tried when the end comes
		r.heard()
		r.send("quota-3") // was never tried by then
		r.stop()
		<-r.ended
		if all := r.heard(); len(all) != 3 || all[1].header.Get("webhook-id") != "quota-2" ||
			all[2].header.Get("webhook-id") != "quota-3" {
			t.Errorf("heard %+v", all)
		}
		r.ends(map[string]float64{resultDelivered: 2, resultUnsent: 1})
	})
}

// What is sent after the end is counted and logged, not kept in silence.
func TestSentAfterTheEnd(t *testing.T) {
	inRig(t, Options{}, func(int, http.ResponseWriter, *http.Request) {}, func(r *rig) {
		r.stop()
		<-r.ended
		r.send("quota-1")
		if all := r.heard(); len(all) != 0 {
			t.Errorf("heard %+v", all)
		}
		r.ends(map[string]float64{resultUnsent: 1})
		if n := strings.Count(r.log.String(), `"events":1`); n != 1 {
			t.Errorf("%d lines of what was not sent; log:\n%s", n, r.log)
		}
	})
}

// Send never waits, whatever other senders and the receiver do.
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
					s.Send(Message{ID: "quota-1"}) // it does not run
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

// drip gives the body of an answer byte by byte, without an end.
func drip(w http.ResponseWriter, q *http.Request) {
	for q.Context().Err() == nil {
		if _, err := w.Write([]byte(".")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		time.Sleep(100 * time.Millisecond)
	}
}

// An event is delivered with the status of its answer: a body that never ends costs a second.
func TestReceiverThatDrips(t *testing.T) {
	const sent = 5
	inRig(t, Options{}, func(_ int, w http.ResponseWriter, q *http.Request) { drip(w, q) }, func(r *rig) {
		for i := range sent {
			r.send(fmt.Sprint("quota-", i+1))
		}
		time.Sleep(sent*answerLimit + time.Second)
		r.ends(map[string]float64{resultDelivered: sent})
		for i, g := range r.heard() {
			if want := fmt.Sprint("quota-", i+1); g.header.Get("webhook-id") != want {
				t.Errorf("request %d has %s, want %s", i+1, g.header.Get("webhook-id"), want)
			}
		}
	})
}

// A receiver that hangs with some events has the others meanwhile; those of one subject come in order.
func TestSubjectsDoNotWaitForEachOther(t *testing.T) {
	inRig(t, Options{}, func(n int, _ http.ResponseWriter, q *http.Request) {
		if n < atOnce {
			<-q.Context().Done()
		}
	}, func(r *rig) {
		for i := range atOnce - 1 {
			r.sendAbout(fmt.Sprint("slow-", i), fmt.Sprint("quota-slow-", i))
			r.heard()
		}
		r.sendAbout("slow-0", "quota-later")
		for i := range 3 {
			r.sendAbout("quick", fmt.Sprint("quota-", i))
		}
		time.Sleep(time.Second)
		if all := r.heard(); len(all) != atOnce-1+3 {
			t.Errorf("%d requests, want %d: what is quick waits, or what is slow has not been waited for", len(all), atOnce-1+3)
		} else {
			for i, g := range all[atOnce-1:] {
				if want := fmt.Sprint("quota-", i); g.header.Get("webhook-id") != want {
					t.Errorf("request %d has %s, want %s", i, g.header.Get("webhook-id"), want)
				}
			}
		}
		r.ends(map[string]float64{resultDelivered: 3})
	})
}
