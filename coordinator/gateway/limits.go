package gateway

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// ProviderHeader names the provider in the question, and in the answer the pool that is charged: of a
// provider with keys "provider@key", which is the key to use.
const ProviderHeader = "X-Quota-Provider"

// RetryAfter sets Retry-After (whole seconds, 1 at least) and Retry-After-Ms: how long it is until one such
// call fits, and a little longer by the chance of the call. It does not wait until the limit is whole
// again, which is t of RateLimit; and what other limits say does not count: the budget of a month is no
// reason to wait where a rate refuses.
func RetryAfter(h http.Header, x *coordinator.CallAnswer, key coordinator.TaskKey) {
	wait := time.Second // nothing is known
	switch {
	case x.Lacks == nil:
	case !x.Lacks.RetryAt.IsZero():
		wait = max(0, time.Until(x.Lacks.RetryAt))
	default:
		if l := refusing(x); l != nil {
			wait = max(wait, l.Reset)
		}
	}
	shown := Later(wait, key)
	h["Retry-After"] = []string{strconv.FormatInt(max(1, wholeSeconds(shown)), 10)}
	if shown == wait { // in milliseconds a short wait has its part of chance, too
		shown += hash.Spread(max(wait, time.Second), key[0])
	}
	h["Retry-After-Ms"] = []string{strconv.FormatInt(int64(math.Ceil(shown.Seconds()*1000)), 10)}
}

// Later is the wait that the caller of a call is given where there is room after wait: whole seconds
// longer by the call's own chance, less than a tenth and a minute. Else all that are refused would
// come together at the moment at which a budget begins anew, or a provider's pool opens. Waits of up
// to ten seconds stay as they are: given in whole seconds, they end at different moments anyhow.
func Later(wait time.Duration, key coordinator.TaskKey) time.Duration {
	rounded := time.Duration(wholeSeconds(wait)) * time.Second
	return wait + hash.Spread(rounded, key[0]).Truncate(time.Second)
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
	if limit, name := Foremost(x); limit != nil && x.Lacks != nil &&
		name == policyName(x.Lacks.Node, x.Lacks.Dimension.String(), x.Lacks.Limit) {
		return limit
	}
	return nil
}

func nameOf(l *coordinator.QuotaLeft) string {
	return policyName(l.Node, l.Dimension.String(), l.Limit)
}

func wholeSeconds(d time.Duration) int64 { return int64(math.Ceil(max(0, d).Seconds())) }

// RateLimits sets the headers of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10): the
// limits that are nearest to being used up, the first of them the one that refuses. legacy: and
// those of the older one. A caller that waits until a limit is whole again waits as [Later] says for the call's key.
func RateLimits(h http.Header, x *coordinator.CallAnswer, key coordinator.TaskKey, legacy bool) {
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
