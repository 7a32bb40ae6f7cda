package rls

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// respond makes one answer of what was answered to the demands that ask. The headers are those of
// the first that is refused, or else of the first that a limit concerns; legacy: as well those of
// the older draft. A request that may pass is answered with which of its provider's keys, if it has
// several.
func respond(demands []demand, answers []coordinator.CallAnswer, legacy bool) *pb.RateLimitResponse {
	r := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK,
		Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(demands))}
	var shown *coordinator.CallAnswer
	key := keyOfFirst(demands)            // one request is given one wait of one limit, by whatever descriptor
	var refused []*coordinator.CallAnswer // by limits
	why, left := "", answers              // why the first is over its limit; empty: a limit refuses it
	for i := range demands {
		d := &demands[i]
		s := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
		r.Statuses[i] = s
		if d.fault != "" {
			s.Code = pb.RateLimitResponse_OVER_LIMIT
			if r.OverallCode == pb.RateLimitResponse_OK {
				why = "A descriptor of the gateway is refused: " + d.fault
			}
		}
		if d.asks {
			x := &left[0]
			left = left[1:]
			describe(s, x, key)
			switch {
			case s.Code != pb.RateLimitResponse_OVER_LIMIT:
			case x.State != coordinator.CallForeign && x.State != coordinator.CallUnlisted:
				refused = append(refused, x)
			case r.OverallCode != pb.RateLimitResponse_OK:
			case x.State == coordinator.CallUnlisted:
				why = "A call without an owner: " + x.Lacks.Text
			default:
				why = "Agent " + string(x.Agent) + " does not belong to the group that is named"
			}
			if limit, _ := gateway.Foremost(x); shown == nil && limit != nil || s.Code != pb.RateLimitResponse_OK &&
				r.OverallCode == pb.RateLimitResponse_OK {
				shown = x
			}
		}
		if s.Code == pb.RateLimitResponse_OVER_LIMIT {
			r.OverallCode = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	if key := keyOf(answers); key != "" && r.OverallCode == pb.RateLimitResponse_OK {
		r.RequestHeadersToAdd = []*core.HeaderValue{{Key: strings.ToLower(gateway.ProviderHeader), Value: key}}
	}
	h := http.Header{}
	if shown != nil {
		gateway.RateLimits(h, shown, key, legacy)
		if shown.State == coordinator.CallRefused {
			gateway.RetryAfter(h, shown, key)
		}
	}
	if r.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		h.Set("Content-Type", "application/problem+json")
		r.RawBody = problem(why, refused)
	}
	r.ResponseHeadersToAdd = headers(h)
	return r
}

// keyOfFirst is the key of the first call that is asked about; that of no call if there is none.
func keyOfFirst(demands []demand) (none coordinator.TaskKey) {
	for i := range demands {
		if demands[i].asks {
			return demands[i].call.Key
		}
	}
	return none
}

// keyOf is the pool of the first answer that is of one of a provider's keys; empty: none is.
func keyOf(answers []coordinator.CallAnswer) string {
	for i := range answers {
		if _, key := coordinator.CutPool(answers[i].Provider); key != "" {
			return answers[i].Provider
		}
	}
	return ""
}

// describe fills in the status of a descriptor. One for which there is room is not over its limit,
// also if another is.
func describe(s *pb.RateLimitResponse_DescriptorStatus, x *coordinator.CallAnswer, key coordinator.TaskKey) {
	if x.State != coordinator.CallGranted && x.State != coordinator.CallPutBy {
		s.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	limit, name := gateway.Foremost(x)
	if limit == nil {
		return
	}
	s.CurrentLimit, s.LimitRemaining = &pb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: small(limit.Quota)},
		small(limit.Left)
	if limit.Window == 0 { // seats: they come back when something ends
		return
	}
	unit, times := periodOf(limit.Window)
	if s.CurrentLimit.Unit = unit; times > 1 {
		s.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(times)
	}
	s.DurationUntilReset = durationpb.New(gateway.Later(limit.Reset, key))
}

// small is as much as the protocol can tell.
func small(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// The lengths that a calendar's periods may have: clocks that change make a day shorter or longer.
const (
	hour, day, week = time.Hour, 24 * time.Hour, 7 * 24 * time.Hour
	shift           = 2 * time.Hour
)

// periodOf is a window in the protocol's units.
func periodOf(window time.Duration) (unit pb.RateLimitResponse_RateLimit_Unit, times uint32) {
	near := func(from, to time.Duration) bool { return window >= from-shift && window <= to+shift }
	switch {
	case near(365*day, 366*day):
		return pb.RateLimitResponse_RateLimit_YEAR, 1
	case near(28*day, 31*day):
		return pb.RateLimitResponse_RateLimit_MONTH, 1
	case near(week, week):
		return pb.RateLimitResponse_RateLimit_WEEK, 1
	case near(day, day):
		return pb.RateLimitResponse_RateLimit_DAY, 1
	case window > 0 && window%hour == 0:
		return pb.RateLimitResponse_RateLimit_HOUR, small(int64(window / hour))
	case window > 0 && window%time.Minute == 0:
		return pb.RateLimitResponse_RateLimit_MINUTE, small(int64(window / time.Minute))
	}
	return pb.RateLimitResponse_RateLimit_SECOND, max(1, small(int64(math.Ceil(window.Seconds()))))
}

// problem is the body that the gateway's client gets (RFC 9457). Where a limit refuses, it is what
// callers over HTTP get, but that Envoy's status is 429 also for what no limit ever has room for.
// why: what else is wrong with the first descriptor that is over its limit; empty: nothing.
func problem(why string, refused []*coordinator.CallAnswer) []byte {
	const status = http.StatusTooManyRequests
	var p any = gateway.Problem{Title: "Quota exceeded", Status: status, Detail: why + "."}
	if why == "" {
		p = gateway.QuotaRefusal(status, "", refused...)
	}
	body, err := json.Marshal(p)
	if err != nil { // plain fields: it cannot happen, and the answer counts without it
		return nil
	}
	return body
}

// headers are in the order of their names, so that equal answers are equal.
func headers(h http.Header) []*core.HeaderValue {
	var all []*core.HeaderValue
	for name, values := range h {
		for _, v := range values {
			all = append(all, &core.HeaderValue{Key: name, Value: v})
		}
	}
	slices.SortFunc(all, func(a, b *core.HeaderValue) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return all
}
