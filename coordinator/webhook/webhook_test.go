package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"
)

func ok(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// valid tells, as a receiver would, whether a signature of a request is that of a key.
func (g *got) valid(key string) bool {
	for _, one := range strings.Fields(g.header.Get("webhook-signature")) {
		encoded, is := strings.CutPrefix(one, "v1,")
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if !is || err != nil {
			return false
		}
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%s.%s.%s", g.header.Get("webhook-id"), g.header.Get("webhook-timestamp"), g.body)
		if hmac.Equal(sum, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// The example that the libraries of Standard Webhooks test themselves by.
func TestSignatureOfTheStandard(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := make(http.Header)
	sign(h, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`))
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" ||
		h.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("signed %v", h)
	}
}

func TestDelivered(t *testing.T) {
	inRig(t, Options{Keys: [][]byte{[]byte(firstKey), []byte(secondKey)}}, ok, func(r *rig) {
		r.send("quota-1")
		r.send("quota-2")
		all := r.heard()
		if len(all) != 2 {
			t.Fatalf("heard %+v", all)
		}
		for i, g := range all {
			id := fmt.Sprint("quota-", i+1)
			if g.header.Get("webhook-id") != id || g.body != `{"of":"`+id+`","amount":1}` ||
				g.header.Get("Content-Type") != "application/json" || g.path != "/hooks/"+secretPath+"?"+secretQuery {
				t.Errorf("heard %+v", g)
			}
			if !g.valid(firstKey) || !g.valid(secondKey) || g.valid("another key") ||
				g.header.Get("webhook-timestamp") != strconv.FormatInt(g.at.Unix(), 10) {
				t.Errorf("signed %v", g.header)
			}
		}
		r.ends(map[string]float64{resultDelivered: 2})
	})
}

func TestSlack(t *testing.T) {
	inRig(t, Options{Format: Slack, Keys: [][]byte{}}, ok, func(r *rig) {
		r.send("quota-1")
		all := r.heard()
		if len(all) != 1 || all[0].body != `{"text":"amount of quota-1 \u0026lt;\u0026amp;\u0026gt;"}` ||
			all[0].header.Get("webhook-signature") != "" {
			t.Errorf("heard %+v", all)
		}
	})
}

// What fails for the moment is tried again: the same event under the same id, signed anew, a second
// later, then two, then four, less up to a half by chance.
func TestTriedAgain(t *testing.T) {
	const tries = 6
	inRig(t, Options{}, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case tries:
			w.WriteHeader(http.StatusOK)
		case 2: // no answer, but the end of the connection
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Errorf("hijack: %v", err)
				return
			}
			_ = c.Close()
		default:
			w.WriteHeader([]int{500, 503, 429}[n%3])
		}
	}, func(r *rig) {
		r.send("quota-1")
		time.Sleep(time.Minute)
		all := r.heard()
		if len(all) != tries {
			t.Fatalf("%d tries; log:\n%s", len(all), r.log)
		}
		for i, g := range all {
			if g.header.Get("webhook-id") != "quota-1" || g.body != all[0].body || !g.valid(firstKey) ||
				g.header.Get("webhook-timestamp") != strconv.FormatInt(g.at.Unix(), 10) {
				t.Errorf("try %d: %+v", i+1, g)
			}
			if i > 0 {
				bound := time.Second << (i - 1)
				if waited := g.at.Sub(all[i-1].at); waited < bound/2 || waited > bound {
					t.Errorf("try %d after %v, want %v to %v", i+1, waited, bound/2, bound)
				}
			}
		}
		r.ends(map[string]float64{resultDelivered: 1})
		if n := r.metric("retries_total", ""); n != tries-1 {
			t.Errorf("%v retries are counted", n)
		}
		if log := r.log.String(); strings.Count(log, "is tried again") != 1 ||
			strings.Count(log, "takes events again") != 1 || !strings.Contains(log, `"host":"receiver.example:8080"`) {
			t.Errorf("log:\n%s", log)
		}
	})
}

// A receiver that names a time is left alone until then, by all events.
func TestRetryAfter(t *testing.T) {
	for name, after := range map[string]func() string{
		"seconds": func() string { return "120" },
		"a date":  func() string { return time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, Options{}, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n == 1 {
					w.Header().Set("Retry-After", after())
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}, func(r *rig) {
				r.send("quota-1")
				r.heard()
				r.send("quota-2")
				time.Sleep(119 * time.Second)
				if n := len(r.heard()); n != 1 {
					t.Fatalf("%d requests before the time", n)
				}
				time.Sleep(2 * time.Second)
				if all := r.heard(); len(all) != 3 || all[1].header.Get("webhook-id") != "quota-1" ||
					all[2].header.Get("webhook-id") != "quota-2" {
					t.Errorf("then %+v", all)
				}
			})
		})
	}
}

// An answer of a day is not believed: an hour later it is tried again.
func TestRetryAfterIsBounded(t *testing.T) {
	inRig(t, Options{}, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(r *rig) {
		r.send("quota-1")
		time.Sleep(time.Hour + time.Second)
		if n := len(r.heard()); n != 2 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// What another try would not change has one. Redirects are not followed.
func TestRefused(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308, 400, 401, 403, 404, 410, 413, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inRig(t, Options{}, func(n int, w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/elsewhere" {
					t.Error("the redirect is followed")
				}
				if n == 1 {
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
				}
			}, func(r *rig) {
				r.send("quota-1")
				r.send("quota-2")
				time.Sleep(2 * longestTried)
				if all := r.heard(); len(all) != 2 || all[1].header.Get("webhook-id") != "quota-2" {
					t.Errorf("heard %+v", all)
				}
				r.ends(map[string]float64{resultDelivered: 1, resultRefused: 1})
				if !strings.Contains(r.log.String(), fmt.Sprintf("it answers %d", status)) ||
					!strings.Contains(r.log.String(), "quota-1") {
					t.Errorf("log:\n%s", r.log)
				}
			})
		})
	}
}

// A receiver that never takes it is tried for a day, at last every five to ten minutes: 24 · 60 / 10 = 144 times
// at least, and half of the waits of 1, 2, 4, ... 512 s are over in 17 minutes.
func TestGivenUp(t *testing.T) {
	inRig(t, Options{}, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		func(r *rig) {
			r.send("quota-1")
			time.Sleep(longestTried + backoffMost)
			n := len(r.heard())
			if n < 144 || n > 10+2*144 {
				t.Errorf("%d tries", n)
			}
			r.ends(map[string]float64{resultGivenUp: 1})
			if left := r.metric("waiting", ""); left != 0 {
				t.Errorf("%v wait", left)
			}
			time.Sleep(longestTried)
			if again := len(r.heard()); again != n {
				t.Errorf("%d tries more", again-n)
			}
		})
}

// The waits between tries stay within their bounds, however many there were.
func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tries := rapid.IntRange(1, 1000).Draw(t, "tries")
		bound := backoffMost
		if tries <= 10 { // 2^9 = 512 s
			bound = time.Second << (tries - 1)
		}
		if d := backoff(tries); d < bound/2 || d > bound {
			t.Fatalf("%v after %d tries, want %v to %v", d, tries, bound/2, bound)
		}
	})
}

// On a real network: a receiver that is not there, speaks no TLS, or has an unknown certificate is named in the
// log without the URL, and tried again.
func TestWhyThereIsNoAnswer(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	secure := httptest.NewTLSServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent all the same") }))
	defer secure.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for name, c := range map[string]struct{ url, reason string }{
		"nobody listens":   {"http://" + gone.Addr().String(), "connection refused"},
		"no TLS":           {strings.Replace(plain.URL, "http:", "https:", 1), "it does not speak TLS"},
		"nobody's word":    {secure.URL, "its certificate is not trusted"},
		"a name of nobody": {"http://nobody.invalid", "its name cannot be found"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &lockedBuffer{}
			s, err := New(Options{URL: c.url + "/" + secretPath + "?" + secretQuery, Registry: prometheus.NewRegistry(),
				Logger: zerolog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			d := &delivery{Message: Message{ID: "quota-1", Body: []byte("{}")}, since: time.Now()}
			answers := make(chan answer, 1)
			s.try(context.Background(), d, answers)
			s.answered(<-answers)
			if s.count() != 1 || !strings.Contains(log.String(), c.reason) || strings.Contains(log.String(), secretPath) ||
				strings.Contains(log.String(), "hidden") {
				t.Errorf("%d wait, want it to be tried again because of %q; log:\n%s", s.count(), c.reason, log)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, url := range []string{"", "hooks.example", "ftp://hooks.example/hidden", "http://", "http://[::1/hidden",
		"http:///hidden"} {
		if _, err := New(Options{URL: url, Registry: prometheus.NewRegistry()}); err == nil ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", url, err)
		}
	}
	s, err := New(Options{URL: "https://user:hidden@hooks.example/x", Registry: prometheus.NewRegistry()})
	if err != nil || s.Host() != "hooks.example" {
		t.Errorf("%v, %v", s, err)
	}
}
