package messages

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// The bounds that the fast path knows are those of the schema files.
func TestBoundsMatchTheSchemas(t *testing.T) {
	pattern := func(class string, least, most int) string { return fmt.Sprintf("^%s{%d,%d}$", class, least, most) }
	const name, printable = `[^\x00-\x1f\x7f]`, `[ -~]`
	id := func(most int) string { return "^[A-Za-z0-9]" + pattern("[A-Za-z0-9._:-]", 0, most-1)[1:] }
	for _, c := range []struct {
		schema, place string
		want          any
	}{
		{schemas.TaskAssign, "properties/task_id/pattern", id(maxID)},
		{schemas.TaskAssign, "properties/task_type/pattern", pattern(name, 1, maxName)},
		{schemas.TaskAssign, "properties/group/pattern", pattern(name, 1, maxName)},
		{schemas.TaskAssign, "properties/priority/maximum", float64(maxPriority)},
		{schemas.TaskAssign, "properties/correlation_id/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.TaskAssign, "properties/timeout_seconds/maximum", float64(maxTimeout)},
		{schemas.TaskAssign, "properties/required_capabilities/maxItems", float64(maxRequired)},
		{schemas.TaskAssign, "properties/required_capabilities/items/pattern", pattern(name, 1, maxName)},
		{schemas.TaskAssign, "properties/preferred_agents/maxItems", float64(maxAgentIDs)},
		{schemas.TaskAssign, "properties/preferred_agents/items/pattern", id(maxID)},
		{schemas.TaskAssign, "properties/excluded_agents/maxItems", float64(maxAgentIDs)},
		{schemas.TaskAssign, "properties/excluded_agents/items/pattern", id(maxID)},
		{schemas.TaskAssign, "properties/strategy/pattern", "^[a-z]" + pattern("[a-z0-9_]", 0, maxStrategy-1)[1:]},
		{schemas.TaskAssign, "properties/estimated_usage/properties/cost_usd/maximum", float64(maxAmount)},
		{schemas.TaskAssign, "properties/estimated_usage/properties/model/pattern", pattern(name, 1, maxName)},
		{schemas.TaskAssign, "properties/estimated_usage/properties/alternatives/maxItems",
			float64(coordinator.MaxAlternatives)},
		{schemas.TaskAssign, "properties/estimated_usage/properties/alternatives/items/properties/model/pattern",
			pattern("[A-Za-z0-9._:@/+-]", 1, maxName)},
		{schemas.TaskDispatch, "properties/provider/pattern", pattern(name, 1, maxName)},
		{schemas.TaskDispatch, "properties/model/pattern", pattern(name, 1, maxName)},
		{schemas.TaskAssign, "properties/labels/maxProperties", float64(maxLabels)},
		{schemas.TaskAssign, "properties/labels/propertyNames/pattern", pattern(name, 1, maxLabelKey)},
		{schemas.TaskAssign, "properties/labels/additionalProperties/pattern", pattern(name, 0, maxLabelValue)},
		{schemas.TaskAssign, "properties/description/maxLength", float64(maxDescription)},
		{schemas.TaskDispatch, "properties/description/maxLength", float64(maxDescription)},
		{schemas.TaskAvailable, "properties/offers/maxItems", float64(MaxOffers)},
		{schemas.TaskAvailable, "properties/offers/items/properties/auction_id/pattern", id(maxDispatchID)},
		{schemas.TaskAvailable, "properties/offers/items/properties/required_capabilities/maxItems",
			float64(maxCapabilities)},
		{schemas.TaskAvailable, "properties/offers/items/properties/bid_window_ms/minimum", 1.0},
		{schemas.TaskAvailable, "properties/offers/items/properties/bid_window_ms/maximum", float64(maxBidWindow)},
		{schemas.TaskAvailable, "properties/offers/items/properties/attempt/maximum", float64(maxCount)},
		{schemas.TaskAvailable, "properties/offers/items/properties/description/maxLength", float64(maxDescription)},
		{schemas.TaskBid, "properties/task_id/pattern", id(maxID)},
		{schemas.TaskBid, "properties/auction_id/pattern", id(maxDispatchID)},
		{schemas.TaskBid, "properties/agent_id/pattern", id(maxID)},
		{schemas.TaskBid, "properties/fitness/maximum", 1.0},
		{schemas.TaskBid, "properties/active_tasks/maximum", float64(maxCount)},
		{schemas.TaskBid, "properties/estimated_duration_seconds/maximum", float64(maxEstimate)},
		{schemas.TaskBid, "properties/relevance/maximum", 1.0},
		{schemas.TaskBid, "properties/correlation_id/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.TaskBids, "properties/bids/maxItems", float64(MaxBids)},
		{schemas.TaskAwarded, "properties/dispatch_id/pattern", id(maxDispatchID)},
		{schemas.TaskClaim, "properties/max_items/maximum", float64(maxClaim)},
		{schemas.TaskClaim, "properties/pending_items/maximum", float64(MaxPending)},
		{schemas.TaskClaim, "properties/capacity_items_per_second/maximum", float64(MaxRate)},
		{schemas.TaskClaim, "properties/capacity_items_per_second/not/exclusiveMaximum", float64(MinRate)},
		{schemas.TaskClaim, "properties/wait_seconds/maximum", float64(maxWait)},
		{schemas.TaskGranted, "properties/granted/maximum", float64(maxClaim)},
		{schemas.TaskGranted, "properties/reason/maxLength", float64(MaxText)},
		{schemas.TaskGranted, "properties/fleet/properties/agents/maximum", float64(maxCount)},
		{schemas.TaskGranted, "properties/fleet/properties/pending_items/maximum", float64(maxAmount)},
		{schemas.TaskGranted, "properties/fleet/properties/unclaimed_items/maximum", float64(maxAmount)},
		{schemas.TaskGranted, "properties/fleet/properties/capacity_items_per_second/maximum", float64(maxAmount)},
		{schemas.TaskGranted, "properties/fleet/properties/target_drain_seconds/maximum", float64(maxEstimate)},
		{schemas.TaskGranted, "properties/fleet/properties/fair_share_items/maximum", float64(maxAmount)},
		{schemas.AgentStatus, "properties/agent_id/pattern", id(maxID)},
		{schemas.AgentStatus, "properties/current_load/maximum", 1.0},
		{schemas.AgentStatus, "properties/active_tasks/maximum", float64(maxCount)},
		{schemas.AgentStatus, "properties/available_capacity/maximum", float64(maxCount)},
		{schemas.AgentStatus, "properties/max_concurrent_tasks/maximum", float64(maxCount)},
		{schemas.AgentStatus, "properties/pending_items/maximum", float64(MaxPending)},
		{schemas.AgentStatus, "properties/capacity_items_per_second/maximum", float64(MaxRate)},
		{schemas.AgentStatus, "properties/capacity_items_per_second/not/exclusiveMaximum", float64(MinRate)},
		{schemas.AgentStatus, "properties/capabilities/maxItems", float64(maxCapabilities)},
		{schemas.AgentStatus, "properties/active_task_ids/maxItems", float64(maxActiveIDs)},
		{schemas.AgentStatus, "properties/queue/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.AgentStatus, "properties/labels/maxProperties", float64(maxLabels)},
		{schemas.TaskDispatch, "properties/task_id/pattern", id(maxID)},
		{schemas.TaskDispatch, "properties/assigned_agent/pattern", id(maxID)},
		{schemas.TaskDispatch, "properties/dispatch_id/pattern", id(maxDispatchID)},
		{schemas.TaskDispatch, "properties/correlation_id/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.TaskDispatch, "properties/queue/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.TaskDispatch, "properties/task_type/pattern", pattern(name, 1, maxName)},
		{schemas.TaskDispatch, "properties/priority/maximum", float64(maxPriority)},
		{schemas.TaskDispatch, "properties/attempt/maximum", float64(maxCount)},
		{schemas.TaskDispatch, "properties/batch_id/pattern", id(maxDispatchID)},
		{schemas.TaskDispatch, "properties/batch_size/minimum", float64(leastBatch)},
		{schemas.TaskDispatch, "properties/batch_size/maximum", float64(maxCount)},
		{schemas.TaskDispatch, "properties/timeout_seconds/maximum", nil},
		{schemas.TaskHeader, "properties/reply_to/pattern", pattern(printable, 1, maxReplyTo)},
		{schemas.TriedHeader, "properties/tried/maxItems", float64(maxTried)},
		{schemas.AssignmentFailed, "properties/reason/maxLength", float64(MaxText)},
		{schemas.TaskResult, "properties/task_id/pattern", id(maxID)},
		{schemas.TaskResult, "properties/agent_id/pattern", id(maxID)},
		{schemas.TaskResult, "properties/dispatch_id/pattern", id(maxDispatchID)},
		{schemas.TaskResult, "properties/correlation_id/pattern", pattern(printable, 1, maxTraceID)},
		{schemas.TaskResult, "properties/attempt/maximum", float64(maxCount)},
		{schemas.TaskResult, "properties/duration_ms/maximum", float64(maxDuration)},
		{schemas.TaskResult, "properties/retry_after_ms/maximum", float64(maxRetryAfter)},
		{schemas.TaskResult, "properties/error/maxLength", float64(MaxText)},
		{schemas.TaskProgress, "properties/percent/maximum", float64(maxPercent)},
		{schemas.TaskProgress, "properties/message/maxLength", float64(MaxProgressText)},
		{schemas.TaskResult, "properties/usage/properties/input_tokens/maximum", float64(maxAmount)},
		{schemas.TaskResult, "properties/usage/properties/provider/pattern", pattern(name, 1, maxName)},
		{schemas.TriedHeader, "properties/failed/maxItems", float64(maxTried)},
		{schemas.TriedHeader, "properties/suspected/maxItems", float64(maxSuspected)},
		{schemas.TaskCancel, "properties/reason/maxLength", float64(MaxText)},
		{schemas.TaskCompleted, "properties/error/maxLength", float64(MaxText)},
		{schemas.TaskCancelRequested, "properties/reason/maxLength", float64(MaxText)},
	} {
		text, err := schemas.File(c.schema + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var at any
		if err := json.Unmarshal(text, &at); err != nil {
			t.Fatal(err)
		}
		for _, step := range strings.Split(c.place, "/") {
			object, _ := at.(map[string]any)
			at = object[step]
		}
		if at != c.want {
			t.Errorf("%s %s is %v, the code has %v", c.schema, c.place, at, c.want)
		}
	}
}

// Values on and just beyond every bound, in every field: whatever the fast path
// accepts the slow path must accept with an equal value.
var edgeValues = []string{
	`0`, `1`, `3`, `4`, `-0`, `-1`, `1.0`, `1e0`, `0.5`, `1.0000001`, `1e308`, `9e308`, `604800`, `604800.0001`, `1000000`,
	`1000001`, `1000000000`, `1000000001`,
	`1e15`, `1e16`, `99999999999999999999`, `null`, `true`, `{}`, `[]`, `""`, `"a"`, `"A_b:c.d-e"`, `"status"`,
	`"a.control"`, `"ready"`, `"busy"`, `"\u0072eady"`,
	`"task.assign"`, `"agent.status"`, `"a b"`, `"a\tb"`, `"ä"`, "\"\x7f\"", `"least_loaded"`, `"Least"`, `".a"`,
	`"2026-02-28T23:59:59Z"`, `"2026-02-29T00:00:00Z"`,
	`"2026-02-28 23:59:59.5"`, `"1969-12-31T23:59:59Z"`, `"2026-02-28T23:59:59+24:00"`, `"` + strings.Repeat("x", 128) +
		`"`, `"` + strings.Repeat("x", 129) + `"`,
	`"` + strings.Repeat("ä", 128) + `"`, `"` + strings.Repeat("ä", 129) + `"`, `"` + strings.Repeat("~", 255) + `"`,
	`"` + strings.Repeat("~", 256) + `"`,
	`["a","b"]`, `["a",1]`, `["ä"]`, `["a b"]`, `["\u0061"]`, `[["a"]]`, quoted(64, "a"), quoted(65, "a"),
	quoted(128, "a"), quoted(129, "a"), quoted(256, "a"), quoted(257, "a"),
	`{"requests":1}`, `{"requests":-1}`, `{"requests":"1"}`, `{"model":"m","cost_usd":0.5}`, `{"model":""}`, `{"x":1}`,
	`{"a":"b"}`, `{"":"b"}`, `{"a":""}`, "{\"a\x7f\":\"\"}",
	`{"a":{"b":1,"b":2}}`, `{` + manyLabels(32) + `}`, `{` + manyLabels(33) + `}`, `{"` + strings.Repeat("ä", 64) +
		`":"x"}`, `{"` + strings.Repeat("ä", 65) + `":"x"}`,
	`"task.result"`, `"task.dispatch"`, `"task.bid"`, `1e-300`, `1e-9`, `0.999999e-9`, `1e307`, `"succeeded"`,
	`"rejected"`, `"Failed"`, `"lost"`, `false`, `tru`, `"true"`, `1000000000000`, `1000000000000.5`, `-0.0`,
	`"` + strings.Repeat("x", 160) + `"`, `"` + strings.Repeat("x", 161) + `"`,
	`"` + strings.Repeat("x", MaxText) + `"`, `"` + strings.Repeat("x", MaxText+1) + `"`,
	`"` + strings.Repeat("ä", MaxText) + `"`, `"` + strings.Repeat("ä", MaxText+1) + `"`,
	`"exit 1\n"`, "\"exit\u00851\u202e\"", `{"requests":1e15,"provider":"p"}`, `{"input_tokens":1e16}`,
	`{"model":"ä","output_tokens":-0}`, `{"requests":1,"requests":2}`, `{"Model":"m"}`,
	`{"a":"` + strings.Repeat("ä", 256) + `"}`, `{"a":"` + strings.Repeat("ä", 257) + `"}`,
}

func TestPathsAgreeOnEdgeValues(t *testing.T) {
	d := newDecoder(t)
	for _, value := range edgeValues {
		for _, field := range append([]string{"x", "Priority"}, d.taskFields...) {
			checkTaskAssign(t, d, []byte(withField(assign(), field, value)))
		}
		for _, field := range append([]string{"x", "Queue"}, d.statusFields...) {
			checkAgentStatus(t, d, []byte(withField(status(), field, value)))
		}
		for _, field := range append([]string{"x", "Outcome"}, d.resultFields...) {
			checkTaskResult(t, d, []byte(withField(result(), field, value)))
		}
		for _, field := range append([]string{"x", "Percent"}, d.progressFields...) {
			checkTaskProgress(t, d, []byte(withField(progress(), field, value)))
		}
		for _, field := range append([]string{"x", "Queue"}, d.dispatchFields...) {
			checkTaskDispatch(t, d, []byte(withField(dispatched(), field, value)))
		}
		for _, field := range append([]string{"x", "Fitness"}, d.bidFields...) {
			checkTaskBid(t, d, []byte(withField(bid(), field, value)))
			checkTaskBids(t, d, []byte(strings.Replace(someBids, aBid, withField(aBid, field, value), 1)))
		}
		for _, field := range []string{"x", "Bids", "message_type", "agent_id"} {
			checkTaskBids(t, d, []byte(withField(someBids, field, value)))
		}
		checkTaskBids(t, d, []byte(strings.Replace(someBids, "["+aBid+"]", value, 1)))
		for _, field := range []string{"x", "Offers", "message_type", "agent_id"} {
			checkTaskAvailable(t, d, []byte(withField(anAuction, field, value)))
		}
		checkTaskAvailable(t, d, []byte(strings.Replace(anAuction, "["+aOffer+"]", value, 1)))
		for _, field := range offerFields {
			checkTaskAvailable(t, d, []byte(strings.Replace(anAuction, aOffer, withField(aOffer, field, value), 1)))
		}
	}
}

func TestPathsAgreeOnSeveralEdgeValues(t *testing.T) {
	d := newDecoder(t)
	draw := func(t *rapid.T, fields []string, body string) []byte {
		for range rapid.IntRange(2, 4).Draw(t, "members") {
			body = withField(body, rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(edgeValues).Draw(t, "value"))
		}
		return []byte(body)
	}
	t.Run("task.assign", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkTaskAssign(t, d, draw(t, d.taskFields, assign())) })
	})
	t.Run("agent.status", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkAgentStatus(t, d, draw(t, d.statusFields, status())) })
	})
	t.Run("task.result", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkTaskResult(t, d, draw(t, d.resultFields, result())) })
	})
	t.Run("task.progress", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkTaskProgress(t, d, draw(t, d.progressFields, progress())) })
	})
	t.Run("task.bid", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkTaskBid(t, d, draw(t, d.bidFields, bid())) })
	})
	t.Run("task.bids", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			checkTaskBids(t, d, []byte(strings.Replace(someBids, aBid, aBid+","+string(draw(t, d.bidFields, aBid)), 1)))
		})
	})
	t.Run("task.available", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			checkTaskAvailable(t, d, []byte(strings.Replace(anAuction, aOffer, aOffer+","+string(draw(t, offerFields, aOffer)),
				1)))
		})
	})
	t.Run("task.dispatch", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkTaskDispatch(t, d, draw(t, d.dispatchFields, dispatched())) })
	})
}

// withField sets a field of a message built by assign, status, result, bid or dispatched: a required one
// is replaced, any other comes last.
func withField(body, field, value string) string {
	body = strings.TrimSuffix(body, "}")
	name := `"` + field + `":`
	before, after, found := strings.Cut(body, name)
	if !found {
		return body + "," + name + value + "}"
	}
	if _, rest, more := strings.Cut(after, ","); more {
		return before + name + value + "," + rest + "}"
	}
	return before + name + value + "}"
}
