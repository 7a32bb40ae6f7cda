package proxy

import (
	"fmt"
	"time"
)

// Action is what a rule does with a frame.
type Action int

// The actions. Whole messages are meant: what is done with a method is done with its
// header and body, too.
const (
	// Pass lets it through; for rules that only have a Hook.
	Pass Action = iota
	// Swallow lets it vanish. (Not for what a client publishes in confirm mode: broker
	// and client would number differently from then on.)
	Swallow
	// Delay holds it back for Rule.For, and what follows on its channel.
	Delay
	// Cut resets the connection instead of passing the frame on.
	Cut
	// CutAfter passes the message on and then ends the connection.
	CutAfter
)

// Rule does something at certain frames.
type Rule struct {
	// Name is for people.
	Name string
	// From which side the frame comes, and whether it is one of those.
	From  Side
	Match func(*Frame) bool
	// After so many matches it begins to act, for so many Times; 0: once, Always:
	// until the proxy is healed.
	After, Times int
	Action       Action
	For          time.Duration
	// Hook is called before the action, on the goroutine that reads the connection:
	// nothing passes until it returns.
	Hook func()
}

// Always is for Rule.Times.
const Always = -1

// Armed is a rule at work.
type Armed struct {
	rule       Rule
	proxy      *Proxy
	seen, done int // guarded by proxy.mu
	acted      chan struct{}
}

// Add puts a rule into force, after those that there are; the first that matches acts.
func (p *Proxy) Add(r Rule) *Armed {
	if r.Times == 0 {
		r.Times = 1
	}
	a := &Armed{rule: r, proxy: p, acted: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, a)
	return a
}

// Fired is how often the rule has acted.
func (a *Armed) Fired() int {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.done
}

// Acted is closed when the rule acts for the first time.
func (a *Armed) Acted() <-chan struct{} { return a.acted }

func (a *Armed) String() string { return fmt.Sprintf("%s (fired %d times)", a.rule.Name, a.Fired()) }

// judge finds the rule that acts on a frame; nil: none does.
func (p *Proxy) judge(f *Frame) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.rules {
		if a.rule.From != f.From || a.rule.Times != Always && a.done >= a.rule.Times || !a.rule.Match(f) {
			continue
		}
		if a.seen++; a.seen <= a.rule.After {
			continue
		}
		if a.done++; a.done == 1 {
			close(a.acted)
		}
		return a
	}
	return nil
}

// Is matches a method.
func Is(m Method) func(*Frame) bool { return func(f *Frame) bool { return f.Method == m } }

// PublishTo matches what is published with a routing key that begins so, at an exchange.
func PublishTo(exchange, prefix string) func(*Frame) bool {
	return func(f *Frame) bool {
		return f.Method == Publish && f.Exchange == exchange && len(f.Key) >= len(prefix) && f.Key[:len(prefix)] == prefix
	}
}

// DeliverFrom matches what a queue delivers.
func DeliverFrom(queue string) func(*Frame) bool {
	return func(f *Frame) bool { return f.Method == Deliver && f.Queue == queue }
}

// AckOf matches what a client acknowledges of a queue.
func AckOf(queue string) func(*Frame) bool {
	return func(f *Frame) bool { return f.Method == Ack && f.Queue == queue }
}
