package rls

import (
	"regexp"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"taskbus/coordinator"
	"taskbus/messages"
)

// The keys of a descriptor's entries. All others are passed over: they are another service's.
const (
	keyAgent     = "agent"
	keyGroup     = "group"
	keyProvider  = "provider"
	keyModel     = "model"
	keyOperation = "operation"
	// keyUnit is what the hits are, one of units; requests if it is not there.
	keyUnit = "unit"
	// keyMode is how they count, one of modes; consume if it is not there.
	keyMode = "mode"
)

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
	said := make(map[string]string, len(entries))
	for _, e := range entries {
		switch e.GetKey() {
		case keyAgent, keyGroup, keyProvider, keyModel, keyOperation, keyUnit, keyMode:
			if _, twice := said[e.GetKey()]; twice {
				return demand{fault: e.GetKey() + " is there twice"}
			}
			said[e.GetKey()] = e.GetValue()
		}
	}
	if !names(said) {
		return demand{} // not about a quota
	}
	if fault := wrong(said); fault != "" {
		return demand{fault: fault}
	}
	n := uint64(max(hits, 1))
	if own := d.GetHitsAddend(); own != nil {
		n = own.GetValue()
	}
	op, known := modes[said[keyMode]]
	if !known {
		op = coordinator.CallConsume
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
		Op: op, Agent: coordinator.AgentID(said[keyAgent]), Group: said[keyGroup], Operation: said[keyOperation],
		NoRequest: true, Priority: coordinator.PriorityNormal,
		Usage: coordinator.Usage{Provider: said[keyProvider], Model: said[keyModel]},
	}
	unit := said[keyUnit]
	if unit == "" {
		unit = "requests"
	}
	units[unit](&call.Usage, float64(n))
	return demand{call: call, asks: true}
}

// names tells whether a descriptor says whose quota is meant, or which provider's.
func names(said map[string]string) bool {
	for _, key := range [...]string{keyAgent, keyGroup, keyProvider, keyModel} {
		if _, is := said[key]; is {
			return true
		}
	}
	return false
}

// wrong is what is wrong with what a descriptor says; empty: nothing is.
func wrong(said map[string]string) string {
	for _, key := range [...]string{keyAgent, keyGroup, keyOperation} {
		if value, is := said[key]; is && !messages.ValidID(value) {
			return key + " is no id"
		}
	}
	for _, key := range [...]string{keyProvider, keyModel} {
		if value, is := said[key]; is && !service.MatchString(value) {
			return key + " is no name of one"
		}
	}
	if unit, is := said[keyUnit]; is && units[unit] == nil {
		return "unit must be requests, tokens, input_tokens, output_tokens or cost_usd"
	}
	if mode, is := said[keyMode]; is {
		if _, known := modes[mode]; !known {
			return "mode must be consume, charge or check"
		}
	}
	return ""
}

// service is the name of a provider or model.
var service = regexp.MustCompile(`^[A-Za-z0-9._:@/+-]{1,128}$`)
