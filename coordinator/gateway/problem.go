package gateway

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Problem is the body of every answer that is not what was asked for (RFC 9457,
// application/problem+json).
type Problem struct {
	// Title names the kind of problem, Status repeats the status code, Detail says
	// what is wrong and what to do.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// QuotaExceededType is the problem type of a call that a limit refuses
// (draft-ietf-httpapi-ratelimit-headers-10, "quota-exceeded").
const QuotaExceededType = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// QuotaProblem is the body of a refusal (RFC 9457).
type QuotaProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// ViolatedPolicies are those of RateLimit-Policy by which it is refused.
	ViolatedPolicies []string `json:"violated-policies"`
	ReservationID    string   `json:"reservation_id,omitempty"`
	// Node, Dimension and Limit (budget, rate, seats, price) that refuse.
	Node      string `json:"node"`
	Dimension string `json:"dimension"`
	Limit     string `json:"limit"`
	// RetryAt is when there may be room; missing: when something that has it ends. Retry-After is when
	// to ask again: a little later, by the chance of the call.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Routes are the alternatives as they were judged.
	Routes []view.CallRoute `json:"routes,omitempty"`
	// Permanent: no limit ever has room for so much at once.
	Permanent bool `json:"permanent,omitempty"`
}

// QuotaRefusal is what is said when limits refuse a call, or several that are granted together (Envoy's
// descriptors): the words are of the first of refused, of which there is one at least, and the
// violated policies of all, each once. status is what the caller's protocol has for it, id the
// reservation that was asked for; empty: none was named.
func QuotaRefusal(status int, id string, refused ...*coordinator.CallAnswer) QuotaProblem {
	x := refused[0]
	lacks := x.Lacks
	if lacks == nil { // there was room for it, but not for what was asked about with it
		lacks = &coordinator.QuotaLack{Text: "another call of the same question is refused"}
	}
	p := QuotaProblem{
		Type: QuotaExceededType, Title: "Quota exceeded", Status: status, Detail: "No quota for this call: " + lacks.Text +
			".", ReservationID: id,
		ViolatedPolicies: []string{},
		Node:             lacks.Node, Dimension: lacks.Dimension.String(), Limit: lacks.Limit, RetryAt: lacks.RetryAt,
		Permanent: x.State == coordinator.CallNever,
		Routes:    CallRoutes(x),
	}
	for _, x := range refused {
		if l := x.Lacks; l != nil {
			if name := policyName(l.Node, l.Dimension.String(), l.Limit); !slices.Contains(p.ViolatedPolicies, name) {
				p.ViolatedPolicies = append(p.ViolatedPolicies, name)
			}
		}
	}
	return p
}
