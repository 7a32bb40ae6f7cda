package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress shows that something is being done: nothing in the first second, then
// a line every second, on a terminal always the same one. It is safe for concurrent use.
type Progress struct {
	W     io.Writer
	Doing string
	// Rewrite: W is a terminal, where one line can be written again and again.
	Rewrite bool

	mu    sync.Mutex
	last  time.Time
	shown bool
}

// Report shows text() if it is time.
func (p *Progress) Report(now time.Time, text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		p.last = now
	}
	if now.Sub(p.last) < time.Second {
		return
	}
	p.last = now
	if p.Rewrite {
		fmt.Fprintf(p.W, "\r\x1b[K%s: %s", p.Doing, text())
	} else {
		fmt.Fprintf(p.W, "%s: %s\n", p.Doing, text())
	}
	p.shown = true
}

// Blocked is bus.SessionSpec.OnBlocked: it shows what the program waits for.
func (p *Progress) Blocked(blocked bool, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if blocked {
		fmt.Fprintf(p.W, "%s: the broker takes nothing at the moment: %s; waiting\n", p.Doing, OneLine(reason))
	} else {
		fmt.Fprintf(p.W, "%s: the broker goes on\n", p.Doing)
	}
}

// End leaves the terminal as it should be for what is printed next.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.shown && p.Rewrite {
		fmt.Fprint(p.W, "\r\x1b[K")
		p.shown = false
	}
}
