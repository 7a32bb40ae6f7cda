package calls

import (
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/pattern"
	"taskbus/messages"
)

// callRequest is what a request says of a call.
type callRequest struct {
	id, agent, group, operation string
	usage                       coordinator.Usage
	meant                       coordinator.UsageMeant
	seats                       int64
	noBorrowing, chargeUntold   bool
	priority                    coordinator.Priority
	ttl                         time.Duration
	routes                      []coordinator.Service
	heard                       *coordinator.ProviderWord
}

// concerns reports whether it says whose call it is, or of what.
func (s *callRequest) concerns() bool {
	return s.agent != "" || s.group != "" || s.usage.Provider != "" || s.usage.Model != "" || len(s.routes) > 0
}

// exactlyIf is how usage is meant of which everything, or not, is told.
func exactlyIf(told bool) coordinator.UsageMeant {
	if told {
		return coordinator.UsageExact
	}
	return coordinator.UsageEstimated
}

// The bounds of what is said.
const (
	maxTTL    = 24 * time.Hour
	maxAmount = 1_000_000_000_000 // tokens or requests of one call
	maxCost   = 1_000_000         // US dollars
	maxSeats  = 1_000_000
	maxName   = 128 // bytes of the name of a provider or model
)

// saidFields are the fields as they are read.
type saidFields struct {
	id, agent, group, provider, model, operation, untold       *string
	requests, input, output, total, cost, seats, ttl, priority *float64
	borrow                                                     *bool
	routes                                                     []coordinator.Service
	heard                                                      *coordinator.ProviderWord
}

func amountMember(name string, into **float64) web.Member {
	return web.Number(name, into, true, func(x float64) bool { return x >= 0 && x <= maxAmount },
		"a whole number from 0 to 1000000000000")
}

// members are what may be said for an operation.
func (f *saidFields) members(op coordinator.CallOp) []web.Member {
	all := []web.Member{web.Text("reservation_id", &f.id), web.Text("agent_id", &f.agent)}
	ttl := web.Number("ttl_seconds", &f.ttl, false, func(x float64) bool { return x >= 1 && x <= maxTTL.Seconds() },
		"a number from 1 to 86400")
	seats := web.Number("concurrency", &f.seats, true, func(x float64) bool { return x >= 0 && x <= maxSeats },
		"a whole number from 0 to 1000000")
	usage := []web.Member{
		amountMember("requests", &f.requests), amountMember("input_tokens", &f.input),
		amountMember("output_tokens", &f.output), amountMember("tokens_needed", &f.total),
		web.Number("cost_usd", &f.cost, false, func(x float64) bool { return x >= 0 && x <= maxCost },
			"a number of US dollars from 0 to 1000000"),
	}
	service := []web.Member{web.Text("provider", &f.provider), web.Text("model", &f.model)}
	switch op {
	case coordinator.CallRelease:
		return append(all, responseMember(&f.heard))
	case coordinator.CallSettle:
		return append(append(append(all, usage...), service...), responseMember(&f.heard))
	case coordinator.CallExtend:
		return append(append(all, usage...), ttl, seats)
	}
	all = append(append(append(all, usage...), service...), web.Text("group_id", &f.group),
		web.Text("operation", &f.operation),
		web.Truth("allow_borrowing", &f.borrow), alternativesMember(&f.routes),
		web.Number("priority", &f.priority, true,
			func(x float64) bool { return x >= 0 && x <= float64(coordinator.PriorityCritical) }, "a whole number from 0 to 3"))
	if op == coordinator.CallReserve || op == coordinator.CallCheck {
		all = append(all, ttl, seats, web.Text("if_untold", &f.untold))
	}
	return all
}

// Fields are the names of what may be said for an operation, in the body.
func Fields(op coordinator.CallOp) (all []string) {
	for _, m := range new(saidFields).members(op) {
		all = append(all, m.Name)
	}
	return all
}

// callReader reads what is said of calls: the fields, and for each operation its members, which
// read into them. It is used again and again, for one call at a time.
type callReader struct {
	saidFields
	of [coordinator.NumCallOps][]web.Member
}

var callReaders = sync.Pool{New: func() any {
	r := new(callReader)
	for op := range r.of {
		r.of[op] = r.members(coordinator.CallOp(op))
	}
	return r
}}

// read reads the body, or answers the request.
func (s *callRequest) read(w http.ResponseWriter, r *http.Request, op coordinator.CallOp) bool {
	c := callReaders.Get().(*callReader)
	defer func() {
		c.saidFields = saidFields{}
		callReaders.Put(c)
	}()
	want := callExample(op)
	switch some, ok := web.ReadSomeBody(w, r, want, c.of[op]...); {
	case !ok:
		return false
	case !some: // a gateway that has lost it would not notice
		web.BadBody(w, want+"; it is empty")
		return false
	}
	if fault := s.take(&c.saidFields, op); fault != "" {
		web.BadBody(w, want+"; "+fault)
		return false
	}
	return true
}

// callExample is what the body of a request may be, for people.
func callExample(op coordinator.CallOp) string {
	switch op {
	case coordinator.CallRelease:
		return `such as {"reservation_id": "r-1"}`
	case coordinator.CallSettle:
		return `such as {"reservation_id": "r-1", "input_tokens": 1200, "output_tokens": 340}`
	case coordinator.CallExtend:
		return `such as {"reservation_id": "r-1", "output_tokens": 500, "ttl_seconds": 120}`
	default:
		return `such as {"agent_id": "agent-1", "model": "gpt-4o", "input_tokens": 1200}`
	}
}

// existing reports whether an operation is about a reservation that was made before.
func existing(op coordinator.CallOp) bool {
	return op == coordinator.CallExtend || op == coordinator.CallSettle || op == coordinator.CallRelease
}

// take takes over what was read; fault says what is wrong with it.
func (s *callRequest) take(f *saidFields, op coordinator.CallOp) (fault string) {
	s.id, s.agent, s.group, s.operation = text(f.id), text(f.agent), text(f.group), text(f.operation)
	switch {
	case existing(op) && s.id == "":
		return "reservation_id is missing"
	case s.id != "" && !messages.ValidID(s.id):
		return "reservation_id must be 1 to 128 letters, digits and . _ : -, beginning with a letter or digit"
	case s.agent != "" && !messages.ValidID(s.agent):
		return "agent_id is no id of an agent"
	case s.group != "" && !messages.ValidID(s.group):
		return "group_id is no id of a group"
	case s.operation != "" && !messages.ValidID(s.operation):
		return "operation must be 1 to 128 letters, digits and . _ : -, beginning with a letter or digit"
	case f.total != nil && (f.input != nil || f.output != nil):
		return "tokens_needed stands for input_tokens and output_tokens; give it, or these"
	case f.untold != nil && *f.untold != "release" && *f.untold != "charge":
		return "if_untold must be release or charge"
	}
	s.usage = coordinator.Usage{
		Requests: number(f.requests), InputTokens: number(f.input), OutputTokens: number(f.output), CostUSD: number(f.cost),
		Provider: text(f.provider), Model: text(f.model),
	}
	if !validService(s.usage.Provider) || !validService(s.usage.Model) {
		return "provider and model are names of 1 to 128 letters, digits and . _ : @ / + -"
	}
	if s.meant = exactlyIf(f.input != nil && f.output != nil); f.total != nil {
		s.usage.InputTokens, s.meant = *f.total, coordinator.UsageExact
	}
	if op == coordinator.CallSettle { // what is not said was not used, if anything is said
		s.meant = exactlyIf(f.total != nil || f.input != nil || f.output != nil || f.cost != nil || f.requests != nil)
	}
	s.seats, s.ttl = int64(number(f.seats)), time.Duration(number(f.ttl)*float64(time.Second))
	if f.seats == nil && (op == coordinator.CallReserve || op == coordinator.CallCheck) {
		s.seats = 1
	}
	if len(f.routes) > 0 && (f.provider != nil || f.model != nil) {
		return "alternatives stand for provider and model; give them, or these"
	}
	s.routes, s.heard = f.routes, f.heard
	s.noBorrowing = f.borrow != nil && !*f.borrow
	s.chargeUntold = f.untold != nil && *f.untold == "charge"
	if s.priority = coordinator.PriorityNormal; f.priority != nil {
		s.priority = coordinator.Priority(*f.priority)
	}
	return ""
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func number(p *float64) float64 {
	if p == nil {
		return 0
	}
	return math.Max(0, *p)
}

// namePattern is what providers and models are called: several names joined by "/".
var namePattern = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// validService reports whether a text may be the name of a provider or model; empty: none is named.
func validService(name string) bool {
	return name == "" || len(name) <= maxName && namePattern.MatchString(name)
}

// isJSON reports whether a request says that its body is JSON, or says nothing.
func isJSON(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.TrimSpace(kind)
	return kind == "" || strings.EqualFold(kind, "application/json")
}
