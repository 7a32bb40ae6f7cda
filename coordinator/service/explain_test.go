package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

func (r *rig) explained(id string) view.TaskExplanation {
	r.t.Helper()
	x, ok := r.service.Explain(context.Background(), id)
	if !ok {
		r.t.Fatalf("%s is not known", id)
	}
	return x
}

func names(list []view.Candidate) (ids []string) {
	for _, c := range list {
		ids = append(ids, c.Agent)
	}
	return ids
}

// The decision as it was made is told apart from the one that would be made now.
func TestExplanationThenAndNow(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		decided := time.Now()
		r.task("t-1", "build", "")
		r.pass(time.Second)
		r.heartbeat("a2", 0)
		x := r.explained("t-1")
		if x.State != "dispatched" || x.Agent != "a1" || !x.DecidedAt.Equal(decided) ||
			!slices.Equal(names(x.Explanation.Candidates), []string{"a1"}) {
			t.Errorf("as it was decided: %+v, %+v", x, x.Explanation)
		}
		if len(x.Attempts) != 1 || x.Attempts[0].Agent != "a1" || x.Attempts[0].Number != 1 ||
			attemptID(x.Attempts[0].DispatchID) != "t-1.1" || x.Attempts[0].Outcome != "" || !x.Attempts[0].At.Equal(decided) {
			t.Errorf("attempts: %+v", x.Attempts)
		}
		if x.Now == nil || x.Now.Agent != "a2" || !slices.Equal(names(x.Now.Explanation.Candidates), []string{"a2"}) ||
			x.Now.ReasonCode != "" {
			t.Fatalf("now: %+v", x.Now)
		}
		if all := x.Now.Explanation.Refusals; len(all) != 1 || all[0].Agent != "a1" || all[0].Why != "full" {
			t.Errorf("refused now: %+v", all)
		}
		if terms := x.Now.Explanation.Candidates[0].Terms; len(terms) == 0 || terms[0].Name != "load" {
			t.Errorf("terms: %+v", terms)
		}
		if got := len(r.in("agent.a2")); got != 0 {
			t.Errorf("asking has assigned something: %d in the queue of a2", got)
		}
	})
}

// Of a task that waits there is no decision but that of now, with all agents in it.
func TestExplanationOfATaskThatWaits(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		for _, id := range []string{"t-1", "t-2", "t-3"} {
			r.task(id, "build", "")
		}
		x := r.explained("t-3")
		if x.State != "pending" || x.Now != nil || !x.DecidedAt.IsZero() || len(x.Attempts) != 0 {
			t.Errorf("%+v", x)
		}
		if e := x.Explanation; e == nil || e.Refused["full"] != 2 || len(e.Refusals) != 2 || e.Nearest == "" {
			t.Errorf("why it waits: %+v", x.Explanation)
		}
		// /tasks/{id} has the same in brief.
		if brief, _ := r.service.Task(context.Background(), "t-3"); brief.Explanation == nil ||
			brief.Explanation.Refused["full"] != 2 || brief.Explanation.Refusals != nil {
			t.Errorf("in brief: %+v", brief.Explanation)
		}
		if _, ok := r.service.Explain(context.Background(), "t-9"); ok {
			t.Error("a task that never was is explained")
		}
	})
}

// A task that waits for its batch says so: that an agent could have it is not why it
// waits.
func TestExplanationOfATaskThatWaitsForItsBatch(t *testing.T) {
	inRig(t, strings.Replace(fleet, "build: {required_capabilities: [go]}",
		"build: {required_capabilities: [go], batch: {max_size: 4, max_wait_ms: 20000}}", 1), func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.task("t-1", "build", "")
		r.pass(2 * time.Second)
		r.task("t-2", "build", "")
		r.task("t-3", "build", "")
		const want = "waits for its batch: 3 of at most 4, at most 18 s more" // 20 - 2
		x := r.explained("t-3")
		if x.State != "pending" || x.Reason != want || x.Explanation.Text != want || x.Now != nil || x.NowUnknown != "" {
			t.Errorf("%+v, %+v", x, x.Explanation)
		}
		if got := names(x.Explanation.Candidates); len(got) != 2 {
			t.Errorf("candidates %v, want both agents", got)
		}
		if brief, _ := r.service.Task(context.Background(), "t-3"); brief.Reason != want || brief.Explanation.Text != want {
			t.Errorf("in brief: %+v", brief)
		}
		list := r.service.Tasks(context.Background(), view.TaskFilter{State: "pending"})
		for _, k := range list {
			if k.Reason != want {
				t.Errorf("in the list: %s: %q", k.ID, k.Reason)
			}
		}
		if len(list) != 3 {
			t.Errorf("%d tasks wait, want 3", len(list))
		}
		r.pass(18 * time.Second)
		if x := r.explained("t-3"); x.Reason == want || strings.Contains(x.Explanation.Text, "batch") {
			t.Errorf("after the batch: %+v, %+v", x, x.Explanation)
		}
	})
}

// What came back shows which agents had it, and why not any more.
func TestExplanationShowsTheAttempts(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		r.reject("agent.a1")
		r.heartbeat("a2", 0)
		r.pass(5 * time.Second)
		var got []string
		for _, a := range r.explained("t-1").Attempts {
			got = append(got, strings.TrimSpace(attemptID(a.DispatchID)+" "+a.Agent+" "+a.Outcome))
		}
		if want := []string{"t-1.1 a1 rejected", "t-1.2 a2"}; !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
	})
}

func TestWhatIf(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		ask := func(body string) (view.Prospect, error) {
			return r.service.WhatIf(context.Background(), []byte(body))
		}
		for _, c := range []struct {
			name, body          string
			agent, reason, text string
		}{
			{"a whole message", taskBody("t-1", "build", ""), "a1", "", "a1 by capability_match"},
			{"without a message type", `{"task_id":"t-1","task_type":"build","payload":{}}`, "a1", "", ""},
			{"with white space", " \n{ \"task_id\":\"t-1\",\"task_type\":\"build\",\"payload\":{}}\n", "a1", "", ""},
			{"no agent can", `{"task_id":"t-1","task_type":"build","payload":{},"required_capabilities":["cobol"]}`, "",
				"no_eligible_agents", "0 of 2 agents eligible"},
			{"the one that could is silent", `{"task_id":"t-1","task_type":"train","payload":{}}`, "", "no_agents_online", ""},
			{"an unknown type", `{"task_id":"t-1","task_type":"paint","payload":{}}`, "", "unknown_task_type", "paint"},
		} {
			p, err := ask(c.body)
			if err != nil || p.Agent != c.agent || p.ReasonCode != c.reason || !strings.Contains(p.Explanation.Text, c.text) ||
				(p.SuggestedAction == "") != (c.reason == "") {
				t.Errorf("%s: %v, %+v, %+v", c.name, err, p, p.Explanation)
			}
		}
		for _, c := range []struct{ name, body, says string }{
			{"nothing", "", "not valid JSON"},
			{"an empty object", "{}", "task_type"},
			{"a payload that is none", `{"task_type":"build","payload":"text"}`, "/payload: is text, not an object"},
			{"another message", `{"message_type":"agent.status","task_id":"t-1","task_type":"build","payload":{}}`,
				"message_type"},
			{"a type in other letters", `{"Message_Type":"task.assign","task_id":"t-1","task_type":"build","payload":{}}`,
				"letter case"},
			{"a key twice", `{"task_id":"t-1","task_id":"t-2","task_type":"build","payload":{}}`, "twice"},
			{"a list", `["task_id"]`, "JSON object"},
			{"a priority of 9", `{"task_id":"t-1","task_type":"build","payload":{"secret":"canary"},"priority":9}`, "/priority"},
			{"two tasks", `{"task_id":"t-1","task_type":"build","payload":{}}` + "\n" +
				`{"task_id":"t-2","task_type":"build","payload":{}}`, "JSON"},
		} {
			_, err := ask(c.body)
			var bad *httpapi.BadTask
			if !errors.As(err, &bad) || !strings.Contains(bad.Text, c.says) || strings.Contains(bad.Text, "canary") {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
		}
		// Nothing was assigned, and nothing is kept.
		r.empty("agent.a1")
		r.empty(bus.QueueFailed)
		if _, known := r.service.Task(context.Background(), "t-1"); known || r.status().Counters.Received != 0 {
			t.Error("the task that was asked about is remembered")
		}
		// It does not stand in the way of the real one.
		r.task("t-1", "build", "")
		r.only("agent.a1")
	})
}

// Questions wait for each other, and not for ever.
func TestOneQuestionAtATime(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		hold, first := make(chan struct{}), make(chan error, 1)
		r.service.loop.enqueue(envelope{call: func(time.Time) { <-hold }})
		go func() { // its answer is being made
			_, err := r.service.WhatIf(context.Background(), []byte(taskBody("t-2", "build", "")))
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := r.service.WhatIf(ctx, []byte(taskBody("t-3", "build", "")))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "questions before this one") {
			t.Errorf("%v, want the deadline while it waits for its turn", err)
		}
		// What is remembered is told all the same.
		if x, ok := r.service.Explain(ctx, "t-1"); !ok || x.Agent != "a1" || x.Explanation == nil || x.Now != nil {
			t.Errorf("%+v", x)
		}
		close(hold)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, err := r.service.WhatIf(context.Background(), []byte(taskBody("t-3", "build", ""))); err != nil {
			t.Error(err)
		}
	})
}

// ADR-018's example from the configuration to the reader: 0.95 / (1 + 0.4) = 0.68 and
// 0.85 / (1 + 0) = 0.85; the third, full, is not asked. The score of the one that got
// the task is what the metric observes.
func TestScoresReachTheReader(t *testing.T) {
	const swarm = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 5, health_check_interval: 5, success_rate: 0.95}
  a2: {capabilities: [go], max_concurrent_tasks: 5, health_check_interval: 5, success_rate: 0.85}
  a3: {capabilities: [go], max_concurrent_tasks: 5, health_check_interval: 5, success_rate: 0.9}
task_routing:
  build: {required_capabilities: [go], strategy: load_balanced}
`
	inRig(t, swarm, func(r *rig) {
		for range 30 { // in five minutes no agent is new any more
			for agent, active := range map[string]int{"a1": 2, "a2": 0, "a3": 5} {
				r.publish(bus.StreamStatus, fmt.Sprintf(
					`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0,"active_tasks":%d,`+
						`"available_capacity":%d,"timestamp":%q}`,
					agent, active, 5-active, time.Now().Format(time.RFC3339Nano)))
			}
			r.pass(10 * time.Second)
		}
		p, err := r.service.WhatIf(context.Background(), []byte(taskBody("t-1", "build", "")))
		if err != nil || p.Agent != "a2" || len(p.Explanation.Candidates) != 2 {
			t.Fatalf("%v, %+v, %+v", err, p, p.Explanation)
		}
		for i, want := range []struct {
			agent string
			score float64
		}{{"a2", 0.85}, {"a1", 0.95 / 1.4}} {
			c := p.Explanation.Candidates[i]
			if c.Agent != want.agent || c.Score == nil || math.Abs(float64(*c.Score)-want.score) > 1e-9 {
				t.Errorf("candidate %d: %+v, want %s with %.4f", i+1, c, want.agent, want.score)
			}
		}
		if all := p.Explanation.Refusals; len(all) != 1 || all[0].Agent != "a3" || all[0].Why != "full" {
			t.Errorf("refused: %+v", all)
		}
		r.task("t-1", "build", "")
		got := scraped(t, r.service.options.Registry)
		if n, sum := got[`taskbus_assignment_score_count{strategy="load_balanced"}`],
			got[`taskbus_assignment_score_sum{strategy="load_balanced"}`]; n != 1 || sum != 0.85 {
			t.Errorf("%v scores observed, their sum is %v; want one of 0.85", n, sum)
		}
	})
}

// TestDispatchExplainsItself: the dispatch says why its agent has the task and why no other, and the
// explanation of the decision as well; agents.yaml leaves it out, from the next dispatch on.
func TestDispatchExplainsItself(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a2", 0)
		r.task("t-1", "train", "")
		if got, want := r.only("agent.a2").text("explanation"),
			"a2 by capability_match, best of 1 eligible among 2 agents (load 0); out: 1 lack a required capability "+
				"(a1)"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		x := r.explained("t-1").Explanation
		if x.Refused["lacks_capability"] != 1 || len(x.Refusals) != 1 || x.Refusals[0].Agent != "a1" {
			t.Errorf("%+v", x)
		}
		for _, one := range r.service.Tasks(context.Background(), view.TaskFilter{}) {
			if x := one.Explanation; x.Refused["lacks_capability"] != 1 || x.Refusals != nil {
				t.Errorf("in the list: %+v", x)
			}
		}
	})
	inRig(t, fleet[:len(fleet)-2]+", explain_dispatches: false}\n", func(r *rig) {
		r.heartbeat("a2", 0)
		r.task("t-1", "train", "")
		if body := string(r.only("agent.a2").Body); strings.Contains(body, "explanation") {
			t.Errorf("it explains itself: %s", body)
		}
	})
}

// A preferred agent that does not exist is no refusal, and explain says so.
func TestExplainNamesPreferredAgentsThatDoNotExist(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", true)
		r.task("t-1", "build", `,"preferred_agents":["a1x","a1"]`)
		r.task("t-2", "build", `,"preferred_agents":["a1","a2"]`)
		const want = "preferred_agents names agents that do not exist: `a1x` (did you mean a1?)"
		if x := r.explained("t-1"); x.State != "dispatched" || x.Reason != want {
			t.Errorf("%s: %q, want %q", x.State, x.Reason, want)
		}
		if x := r.explained("t-2"); strings.Contains(x.Reason, "preferred_agents") {
			t.Errorf("all exist: %q", x.Reason)
		}
	})
}
