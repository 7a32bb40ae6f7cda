package rls

import (
	"slices"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"taskbus/coordinator"
	"taskbus/coordinator/pattern"
	"taskbus/messages"
)

// What the entries of a descriptor may say, and their keys. All other keys are passed over: they are
// another service's.
const (
	agent = iota
	group
	provider
	model
	operation
	unit // what the hits are, one of units; requests if it is not there
	mode // how they count, one of modes; consume if it is not there
	numKeys
)

var keys = [numKeys]string{"agent", "group", "provider", "model", "operation", "unit", "mode"}

// words are what a descriptor says.
type words struct {
	value [numKeys]string
	is    [numKeys]bool
}

// units say what so many hits use. Hits of cost_usd are millionths of a US dollar.
var units = map[string]func(u *coordinator.Usage, hits float64){
	"requests":      func(u *coordinator.Usage, hits float64) { u.Requests = hits },
	"tokens":        func(u *coordinator.Usage, hits float64) { u.InputTokens = hits },
	"input_tokens":  func(u *coordinator.Usage, hits float64) { u.InputTokens = hits },
	"output_tokens": func(u *coordinator.Usage, hits float64) { u.OutputTokens = hits },
	"cost_usd":      func(u *coordinator.Usage, hits float64) { u.CostUSD = hits / 1e6 },
}

// modes: consume charges what there is room for; charge what has been used already, whatever the
// limits; check nothing at all.
var modes = map[string]coordinator.CallOp{
	"consume": coordinator.CallConsume, "charge": coordinator.CallCharge, "check": coordinator.CallCheck,
}

// maxHits bounds the hits of one descriptor.
const maxHits = 1_000_000_000_000

// demand is what a descriptor asks for.
type demand struct {
	// call is what the engine is asked; only if asks.
	call coordinator.Call
	asks bool
	// fault is what is wrong with the descriptor, which is refused then; empty: nothing is.
	fault string
}

// read reads a descriptor. hits are those of the request, which count if it has none of its own: 0
// of these is 1 then. Its own 0 asks whether one more would pass, and charges nothing; so it is with
// what Envoy's own service calls a peek.
func read(d *ratelimit.RateLimitDescriptor, hits uint32) demand {
	entries := d.GetEntries()
	if len(entries) > maxEntries {
		return demand{fault: "it has more entries than are read"}
	}
	var said words
	for _, e := range entries {
		i := slices.Index(keys[:], e.GetKey())
		switch {
		case i < 0: // another service's
		case said.is[i]:
			return demand{fault: e.GetKey() + " is there twice"}
		default:
			said.is[i], said.value[i] = true, e.GetValue()
		}
	}
	if !said.is[agent] && !said.is[group] && !said.is[provider] && !said.is[model] {
		return demand{} // not about a quota
	}
	if fault := said.wrong(); fault != "" {
		return demand{fault: fault}
	}
	n := uint64(max(hits, 1))
	if own := d.GetHitsAddend(); own != nil {
		n = own.GetValue()
	}
	op := coordinator.CallConsume
	if said.is[mode] {
		op = modes[said.value[mode]]
	}
	switch {
	case n > maxHits:
		return demand{fault: "it has more hits than any call"}
	case n == 0 && op == coordinator.CallCharge:
		return demand{} // nothing was used
	case n == 0:
		n, op = 1, coordinator.CallCheck
	}
	call := coordinator.Call{
		Op: op, Agent: coordinator.AgentID(said.value[agent]), Group: said.value[group], Operation: said.value[operation],
		Meant: coordinator.UsagePart, Priority: coordinator.PriorityNormal,
		Usage: coordinator.Usage{Provider: said.value[provider], Model: said.value[model]},
	}
	counts := units["requests"]
	if said.is[unit] {
		counts = units[said.value[unit]]
	}
	counts(&call.Usage, float64(n))
	return demand{call: call, asks: true}
}

// wrong is what is wrong with what a descriptor says; empty: nothing is.
func (w *words) wrong() string {
	for _, key := range [...]int{agent, group, operation} {
		if w.is[key] && !messages.ValidID(w.value[key]) {
			return keys[key] + " is no id"
		}
	}
	for _, key := range [...]int{provider, model} {
		if w.is[key] && !service.MatchString(w.value[key]) {
			return keys[key] + " is no name of one"
		}
	}
	if w.is[unit] && units[w.value[unit]] == nil {
		return "unit must be requests, tokens, input_tokens, output_tokens or cost_usd"
	}
	if _, known := modes[w.value[mode]]; w.is[mode] && !known {
		return "mode must be consume, charge or check"
	}
	return ""
}

// service is the name of a provider or model.
var service = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$`)
