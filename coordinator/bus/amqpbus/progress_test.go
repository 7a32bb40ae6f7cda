package amqpbus

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// Of 500 queues that take 60 ms each, 30 s, a line is logged every five seconds: 84 queues take 5.04 s, and so on.
// 20 queues are declared in silence.
func TestLongDeclarationsAreLogged(t *testing.T) {
	for _, c := range []struct {
		queues int
		want   []string
	}{
		{20, nil},
		{500, []string{`"done":84,"of":500`, `"done":168,"of":500`, `"done":252,`, `"done":336,`, `"done":420,`}},
	} {
		var log strings.Builder
		now := time.Unix(0, 0)
		p := progress{logger: zerolog.New(&log), told: now}
		for i := range c.queues {
			now = now.Add(60 * time.Millisecond)
			p.tell(now, i+1, c.queues)
		}
		if n := strings.Count(log.String(), "connecting: declaring queues"); n != len(c.want) {
			t.Errorf("%d queues: %d lines, want %d:\n%s", c.queues, n, len(c.want), log.String())
		}
		for _, w := range c.want {
			if !strings.Contains(log.String(), w) {
				t.Errorf("%d queues: no line says %s:\n%s", c.queues, w, log.String())
			}
		}
	}
}
