package tests

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/coordinator/webhook"
	"taskbus/tests/support/brokertest"
)

// What docs/howto/quota-alerts.md gives receivers to verify events with does so: what was sent and nothing else.
func TestVerifyingAsDocumented(t *testing.T) {
	if os.Getenv("TASKBUS_TEST_NO_PIKA") == "1" {
		t.Skip("TASKBUS_TEST_NO_PIKA=1: what is written in Python is not tested")
	}
	const python = "/usr/bin/python3"
	brokertest.Needs(t, "Python")
	shown := blocks(t, "docs/howto/quota-alerts.md", "python")
	if len(shown) != 1 {
		t.Fatalf("%d blocks of docs/howto/quota-alerts.md are marked <!-- python: … -->, want 1", len(shown))
	}
	type request struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	got := make(chan request, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Errorf("read what was sent: %v", err)
		}
		r := request{make(map[string]string), string(body)}
		for name := range q.Header {
			r.Headers[strings.ToLower(name)] = q.Header.Get(name)
		}
		got <- r
	}))
	defer receiver.Close()
	key := "0123456789abcdef0123456789abcdef"
	s, err := webhook.New(webhook.Options{URL: receiver.URL, Keys: [][]byte{[]byte("another key of thirty-two bytes."),
		[]byte(key)}, Registry: prometheus.NewRegistry(), Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	go s.Run(t.Context())
	s.Send(webhook.Message{ID: "quota-1", Body: []byte(`{"message_type":"quota.reached","node":"pool/größe"}`)})
	in, err := json.Marshal(<-got)
	if err != nil {
		t.Fatal(err)
	}
	// As it came; a body, an id, a secret that is another; ten minutes later.
	cmd := exec.Command(python, "-c", shown[0].text+`
import json, sys
q = json.load(sys.stdin)
h, b, s = q["headers"], q["body"].encode(), sys.argv[1]
print(verified(s, h, b), verified(s, h, b + b" "), verified(s, dict(h, **{"webhook-id": "quota-2"}), b),
      verified("whsec_" + "A" * 44, h, b), verified(s, h, b, now=time.time() + 600))
`, "whsec_"+base64.StdEncoding.EncodeToString([]byte(key)))
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (is %s there? Debian: apt-get install python3; TASKBUS_TEST_NO_PIKA=1 does without)\n%s", err, python,
			out)
	}
	if said := strings.TrimSpace(string(out)); said != "True False False False False" {
		t.Errorf("it says %q", said)
	}
}
