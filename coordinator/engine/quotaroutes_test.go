package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// asking is what explains a call with 1,000 tokens each way of the team, which may go to these.
func asking(routes ...string) *engine.QuotaQuestion {
	c := routed(coordinator.CallCheck, "", routes...)
	return &engine.QuotaQuestion{Group: c.Group, Usage: c.Usage, Routes: c.Routes}
}

// What is explained is what a call is told that asks: the same one is chosen, of the same scores, and
// its limits are those that are shown.
func TestExplainedRoutesAreThoseOfACheck(t *testing.T) {
	r := calls(t, twoProviders)
	for i, routes := range [][]string{{"openai/big", "lab"}, {"lab", "openai@spare/big"}, {"openai/big"}} {
		for j := range 3 * i { // the more is used the less remains
			r.state(routed(coordinator.CallConsume, fmt.Sprint(i, j), routes[0]), coordinator.CallGranted)
		}
		check := routed(coordinator.CallCheck, "", routes...)
		check.Seats = 1 // as over HTTP
		told := r.state(check, coordinator.CallGranted)
		a, ok := r.Quotas(r.now).Explain(asking(routes...))
		if !ok || a.Lack != "" || !a.Explanation.Verdict.OK || a.Group != "team" || !a.Known ||
			!reflect.DeepEqual(a.Routes, told.Routes) || a.Provider != told.Provider || a.Amounts != told.Amounts {
			t.Errorf("%v: %+v\nexplained, and\n%+v\ntold", routes, a, told)
		}
		if !slices.Contains(a.Nodes, told.Pool) ||
			a.Weights != (coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1}) {
			t.Errorf("%v: charged to %v, by weights %+v", routes, a.Nodes, a.Weights)
		}
	}
	if a, _ := r.Quotas(r.now).Explain(&engine.QuotaQuestion{Group: "nobody", Routes: asking("lab").Routes}); a.Known ||
		a.Amounts[coordinator.DimConcurrency] != 1 || a.Amounts[coordinator.DimRequests] != 1 {
		t.Errorf("a group that there is not, with a call that is estimated: %+v", a)
	}
}

// Where none has quota it is said of each why, and the answer is of the one that is back first.
func TestExplainedRoutesWithoutQuota(t *testing.T) {
	r := calls(t, twoProviders)
	for _, c := range []struct {
		id, to string
		after  time.Duration
	}{{"1", "lab", time.Hour}, {"2", "openai@main/big", 2 * time.Minute}, {"3", "openai@spare/big", time.Minute}} {
		r.state(routed(coordinator.CallReserve, c.id, c.to), coordinator.CallGranted)
		r.now = r.now.Add(time.Second)
		r.state(answered(coordinator.CallRelease, c.id, coordinator.ProviderWord{Status: 429, RetryAfter: c.after}),
			coordinator.CallGranted)
	}
	a, _ := r.Quotas(r.now).Explain(asking("lab", "openai/big"))
	if len(a.Routes) != 3 || a.Provider != "openai@spare" || a.Explanation.Verdict.OK ||
		a.Explanation.Verdict.Node != "openai@spare/big" ||
		!strings.HasPrefix(a.Lack, "openai@spare/big is left alone, because its provider has refused calls; back at ") {
		t.Errorf("%+v", a)
	}
	for _, x := range a.Routes {
		if x.Lacks == nil || x.Chosen || !strings.HasPrefix(x.Lacks.Text, x.Pool+" is left alone") {
			t.Errorf("%s: %+v", x.Pool, x)
		}
	}
}

// A question changes nothing: neither what is used, nor what is told to questions after it. Half
// of the budget is the team's, and what it borrows has to accrue to the other group first.
func TestExplainingRoutesChangesNothing(t *testing.T) {
	const lending = `
groups: [{id: team}, {id: rest}]
pool: {limits: {total_tokens: {amount: 80000, per: day}}}
providers: [{provider: lab, limits: {requests: {rate: 600, per: minute, burst: 10}}}, {provider: far}]
`
	quiet, asked := calls(t, lending), calls(t, lending)
	refused := 0
	for i := range 60 {
		for _, r := range []callRig{quiet, asked} {
			r.now = r.now.Add(7 * time.Minute)
		}
		asked.now = asked.now.Add(-3 * time.Minute)
		asked.Quotas(asked.now).Explain(asking("lab", "far"))
		asked.now = asked.now.Add(3 * time.Minute)
		want, got := quiet.ask(routed(coordinator.CallConsume, fmt.Sprint(i), "lab", "far"))[0],
			asked.ask(routed(coordinator.CallConsume, fmt.Sprint(i), "lab", "far"))[0]
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("call %d: %+v %+v\nafter a question, and\n%+v %+v\nwithout", i, got, got.Lacks, want, want.Lacks)
		}
		if got.State == coordinator.CallRefused {
			refused++
		}
	}
	if refused == 0 || refused == 60 {
		t.Errorf("%d of 60 calls are refused: it should be some", refused)
	}
}
