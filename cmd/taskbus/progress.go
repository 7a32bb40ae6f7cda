package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows that something is being done: nothing in the first second, then
// a line every second, on a terminal always the same one. The zero value of
// everything but w is in order. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	doing string
	// rewrite: w is a terminal, where one line can be written again and again.
	rewrite bool

	mu    sync.Mutex
	last  time.Time
	shown bool
}

// report shows text() if it is time.
func (p *progress) report(now time.Time, text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		p.last = now
	}
	if now.Sub(p.last) < time.Second {
		return
	}
	p.last = now
	if p.rewrite {
		fmt.Fprintf(p.w, "\r\x1b[K%s: %s", p.doing, text())
	} else {
		fmt.Fprintf(p.w, "%s: %s\n", p.doing, text())
	}
	p.shown = true
}

// blocked is bus.SessionSpec.OnBlocked: it shows what the program waits for.
func (p *progress) blocked(blocked bool, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if blocked {
		fmt.Fprintf(p.w, "%s: the broker takes nothing at the moment: %s; waiting\n", p.doing, oneLine(reason))
	} else {
		fmt.Fprintf(p.w, "%s: the broker goes on\n", p.doing)
	}
}

// end leaves the terminal as it should be for what is printed next.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.shown && p.rewrite {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
