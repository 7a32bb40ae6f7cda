package messages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbus/schemas"
)

// A field that no schema has is named, whichever way the message is read; what may hold anything is left alone.
func TestUnknownFields(t *testing.T) {
	d := newDecoder(t)
	const task = `{"message_type":"task.assign","task_id":"t-1","task_type":"build","payload":{"prioritiy":1},` +
		`"labels":{"timeout":"5"}`
	many := ""
	for i := range 2 * maxUnknown {
		many += fmt.Sprintf(`,"x%d":0`, i)
	}
	for name, tc := range map[string]struct {
		extra string
		want  []string
	}{
		"none":                   {"", nil},
		"its version":            {`,"message_version":1`, nil},
		"one":                    {`,"prioritiy":3`, []string{"prioritiy"}},
		"two, in their order":    {`,"timeout":5,"prioritiy":3`, []string{"timeout", "prioritiy"}},
		"escaped":                {`,"\u0070rioritiy":3`, []string{"prioritiy"}},
		"a name that is no word": {",\"a\\nb\":3", []string{"a b"}},
		"within what is estimated": {`,"estimated_usage":{"tokens":3,"modle":"x"}`,
			[]string{"estimated_usage.modle", "estimated_usage.tokens"}},
		"within an alternative": {`,"estimated_usage":{"alternatives":[{"provider":"p","modle":"x"}]}`,
			[]string{"estimated_usage.alternatives.modle"}},
		"alternatives are known": {`,"estimated_usage":{"alternatives":[{"provider":"p"}]}`, nil},
		"more than are named":    {many, []string{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"}},
		"a long one": {`,"` + strings.Repeat("x", 100) + `":1`,
			[]string{strings.Repeat("x", maxLabelKey-len("…")) + "…"}},
		"a value that is passed by":  {`,"extra":{"task_id":"t-2","deep":[1,{"x":2}]}`, []string{"extra"}},
		"one behind a nested object": {`,"estimated_usage":{"requests":1},"group_id":"a"`, []string{"group_id"}},
	} {
		body := []byte(task + tc.extra + "}")
		m, refusal := d.DecodeTaskAssign(body)
		if refusal != nil {
			t.Errorf("%s: refused: %s", name, refusal.Text)
			continue
		}
		slow, _ := d.slowTaskAssign(body)
		if !slices.Equal(m.Unknown, tc.want) || !slices.Equal(slow.Unknown, tc.want) {
			t.Errorf("%s: %q, read slowly %q, want %q", name, m.Unknown, slow.Unknown, tc.want)
		}
	}
	for schema, unknown := range map[string]func(extra string) []string{
		schemas.AgentStatus: func(extra string) []string {
			var m AgentStatus
			d.DecodeAgentStatus(
				[]byte(
					`{"message_type":"agent.status","agent_id":"a","status":"ready","current_load":0,"active_tasks":0,`+
						`"available_capacity":1,"timestamp":"2026-03-01T12:00:00Z"`+extra), &m)
			return m.Unknown
		},
		schemas.TaskResult: func(extra string) []string {
			var m TaskResult
			d.DecodeTaskResult(
				[]byte(
					`{"message_type":"task.result","agent_id":"a","task_id":"t","outcome":"failed","correlation_id":"c",`+
						`"timestamp":"2026-03-01T12:00:00Z"`+extra), &m)
			return m.Unknown
		},
		schemas.TaskProgress: func(extra string) []string {
			m, _ := d.DecodeTaskProgress([]byte(strings.TrimSuffix(progress(), "}") + extra))
			return m.Unknown
		},
		schemas.TaskBid: func(extra string) []string {
			m,
				_ := d.DecodeTaskBid(
				[]byte(
					`{"message_type":"task.bid","agent_id":"a","task_id":"t","fitness":1,"active_tasks":0,` +
						`"estimated_duration_seconds":1` + extra))
			return m.Unknown
		},
		schemas.TaskBids: func(extra string) []string {
			m,
				_ := d.DecodeTaskBids(
				[]byte(
					`{"message_type":"task.bids","agent_id":"a","bids":[{"task_id":"t","fitness":1,"active_tasks":0,` +
						`"estimated_duration_seconds":1,"inner":2}]` + extra))
			return m.Unknown
		},
		schemas.TaskClaim: func(extra string) []string {
			m,
				_ := d.DecodeTaskClaim([]byte(
				`{"message_type":"task.claim","agent_id":"a","claim_id":"c","max_items":1,"pending_items":0` + extra))
			return m.Unknown
		},
		schemas.TaskCancel: func(extra string) []string {
			m, _ := d.DecodeTaskCancel([]byte(`{"message_type":"task.cancel","task_id":"t"` + extra))
			return m.Unknown
		},
	} {
		if got := unknown(`}`); got != nil {
			t.Errorf("%s: %q without any", schema, got)
		}
		if got := unknown(`,"agentid":1}`); !slices.Equal(got, []string{"agentid"}) {
			t.Errorf("%s: %q, want agentid", schema, got)
		}
	}
	if m := new(TaskResult); d.DecodeTaskResult(
		[]byte(
			`{"message_type":"task.result","agent_id":"a","task_id":"t","outcome":"failed","correlation_id":"c",`+
				`"timestamp":"2026-03-01T12:00:00Z","usage":{"cost":1}}`), m) != nil ||
		!slices.Equal(m.Unknown, []string{"usage.cost"}) {
		t.Errorf("within usage: %q", m.Unknown)
	}
}

// What is refused for an unknown field says what may have been meant.
func TestRefuseUnknown(t *testing.T) {
	d := newDecoder(t)
	for unknown, want := range map[string]string{
		"prioritiy": "/prioritiy: there is no such field of task.assign; did you mean priority? " +
			"(global_settings.strict_messages)",
		"timeout": "/timeout: there is no such field of task.assign; did you mean timeout_seconds? " +
			"(global_settings.strict_messages)",
		"model": "/model: there is no such field of task.assign; did you mean estimated_usage? " +
			"(global_settings.strict_messages)",
		"estimated_usage.modle": "/estimated_usage.modle: there is no such field of task.assign; did you mean model? " +
			"(global_settings.strict_messages)",
		"zzz": "/zzz: there is no such field of task.assign (global_settings.strict_messages)",
	} {
		if r := d.RefuseUnknown(schemas.TaskAssign, unknown); r.Text != want || r.Keyword != "additionalProperties" {
			t.Errorf("%s: %+v\nwant %s", unknown, r, want)
		}
	}
}
