package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"taskbus/coordinator"
)

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
	// Node, Dimension and Limit (budget, rate, seats) that refuse.
	Node      string `json:"node"`
	Dimension string `json:"dimension"`
	Limit     string `json:"limit"`
	// RetryAt is when there may be room; missing: when something that has it ends. Retry-After is when
	// to ask again: a little later, by the chance of the call.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Routes are the alternatives as they were judged.
	Routes []CallRoute `json:"routes,omitempty"`
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
		Type: QuotaExceededType, Title: "Quota exceeded", Status: status, Detail: "No quota for this call: " + lacks.Text + ".", ReservationID: id,
		ViolatedPolicies: []string{},
		Node:             lacks.Node, Dimension: lacks.Dimension.String(), Limit: lacks.Limit, RetryAt: lacks.RetryAt, Permanent: x.State == coordinator.CallNever,
		Routes: CallRoutes(x),
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

// quotaExceeded answers what a limit refuses: with 429, and what none ever has room for with 422.
func quotaExceeded(w http.ResponseWriter, id string, key coordinator.TaskKey, x *coordinator.CallAnswer) {
	status := http.StatusTooManyRequests
	if x.State == coordinator.CallNever {
		status = http.StatusUnprocessableEntity
	} else {
		w.Header().Set("Retry-After", strconv.FormatInt(retryAfter(x, key), 10))
	}
	p := QuotaRefusal(status, id, x)
	body, err := json.Marshal(p)
	if err != nil { // plain fields: cannot happen, and must not be silent if it does
		http.Error(w, p.Title, status)
		return
	}
	send(w, status, "application/problem+json", body)
}

// retryAfter is after how many seconds who was refused may ask again, at least 1: when there may be
// room, and never sooner than the RateLimit header says of the limit that refuses. What another
// limit says does not count: the budget of a month is no reason to wait where a rate refuses.
func retryAfter(x *coordinator.CallAnswer, key coordinator.TaskKey) int64 {
	if x.Lacks == nil {
		return 1
	}
	most := time.Second
	if at := x.Lacks.RetryAt; !at.IsZero() {
		most = max(most, time.Until(at))
	}
	if l := refusing(x); l != nil {
		most = max(most, l.Reset)
	}
	return wholeSeconds(Later(most, key))
}

// Later is the wait that the caller of a call is told where there is room after wait: whole seconds
// longer by the call's own chance, less than a tenth and a minute. Else all who are refused would
// come together at the moment at which a budget begins anew, or a provider's pool opens. Waits of up
// to ten seconds stay as they are: told in whole seconds, they end at different moments anyhow.
func Later(wait time.Duration, key coordinator.TaskKey) time.Duration {
	told := time.Duration(wholeSeconds(wait)) * time.Second
	return wait + coordinator.Spread(told, key[0]).Truncate(time.Second)
}

// SetLimits sets the headers RateLimit and RateLimit-Policy, and of what is refused Retry-After, for
// a gateway that hands them on; key is the call's, legacy: those of the older draft as well.
func SetLimits(h http.Header, x *coordinator.CallAnswer, key coordinator.TaskKey, legacy bool) {
	rateLimits(h, x, key, legacy)
	if x.State == coordinator.CallRefused {
		h.Set("Retry-After", strconv.FormatInt(retryAfter(x, key), 10))
	}
}

// Foremost is the limit that refuses a call if the answer has it, else the one that is nearest to being
// used up, with its name in RateLimit-Policy; nil: there is none.
func Foremost(x *coordinator.CallAnswer) (limit *coordinator.QuotaLeft, name string) {
	if len(x.Limits) == 0 {
		return nil, ""
	}
	return &x.Limits[0], nameOf(&x.Limits[0])
}

// refusing is the limit that refuses a call, if it does and the answer has it.
func refusing(x *coordinator.CallAnswer) *coordinator.QuotaLeft {
	if limit, name := Foremost(x); limit != nil && x.Lacks != nil && name == policyName(x.Lacks.Node, x.Lacks.Dimension.String(), x.Lacks.Limit) {
		return limit
	}
	return nil
}

func nameOf(l *coordinator.QuotaLeft) string {
	return policyName(l.Node, l.Dimension.String(), l.Limit)
}

func wholeSeconds(d time.Duration) int64 { return int64(math.Ceil(max(0, d).Seconds())) }

// rateLimits sets the headers of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10): the
// limits that are nearest to being used up, the first of them the one that refuses. legacy: and
// those of the older one. Who waits until a limit is whole again waits as [Later] says for the call's key.
func rateLimits(h http.Header, x *coordinator.CallAnswer, key coordinator.TaskKey, legacy bool) {
	if legacy {
		legacyLimits(h, x, key)
	}
	var policy, left []byte
	for i := range x.Limits {
		l := &x.Limits[i]
		if policy != nil {
			policy, left = append(policy, ", "...), append(left, ", "...)
		}
		name := nameOf(l)
		policy = appendPolicy(policy, name, l)
		left = append(append(append(left, '"'), name...), '"')
		left = appendParameter(left, "r", l.Left)
		if l.Window > 0 {
			left = appendParameter(left, "t", wholeSeconds(Later(l.Reset, key)))
		}
	}
	if policy != nil {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{string(policy)}, []string{string(left)}
	}
}

// legacyLimits sets the three headers that the draft had up to its version 06
// (draft-ietf-httpapi-ratelimit-headers-06), with plain numbers as gateways send them. They have room
// for one limit and no name, and for none without a window: it is the one that refuses, and if the
// answer does not have that, or it is seats, they are not sent, because a client would take what
// another one has left for what it may use.
func legacyLimits(h http.Header, x *coordinator.CallAnswer, key coordinator.TaskKey) {
	limit, _ := Foremost(x)
	if x.Lacks != nil {
		limit = refusing(x)
	}
	if limit == nil || limit.Window == 0 {
		return
	}
	h["Ratelimit-Limit"] = []string{strconv.FormatInt(limit.Quota, 10)}
	h["Ratelimit-Remaining"] = []string{strconv.FormatInt(max(0, limit.Left), 10)}
	h["Ratelimit-Reset"] = []string{strconv.FormatInt(wholeSeconds(Later(limit.Reset, key)), 10)}
}

func appendPolicy(b []byte, name string, l *coordinator.QuotaLeft) []byte {
	b = append(append(append(b, '"'), name...), '"')
	b = appendParameter(b, "q", l.Quota)
	if l.Window > 0 {
		b = appendParameter(b, "w", wholeSeconds(l.Window))
	}
	switch l.Dimension {
	case coordinator.DimRequests: // the default
	case coordinator.DimCost:
		b = append(b, `;qu="micro-usd"`...)
	case coordinator.DimConcurrency:
		b = append(b, `;qu="concurrent-requests"`...)
	default:
		b = append(b, `;qu="tokens"`...)
	}
	return b
}

// mostSF is the largest integer of a structured field (RFC 9651, 3.3.1).
const mostSF = 999_999_999_999_999

func appendParameter(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(append(append(b, ';'), name...), '='), min(max(v, 0), mostSF), 10)
}

// policyName names a limit. Nodes have no character that a string of a structured field could
// not hold.
func policyName(node, dimension, kind string) string { return node + ":" + dimension + ":" + kind }
