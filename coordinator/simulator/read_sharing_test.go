package simulator

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

const goodSharing = `about: two tenants
seeds: [3, 4]
sharing:
  weights:
    - {chat: 1, code: 1}
    - {code: 3, chat: 1}
  slots: 8
  seconds_per_output_token: 0.01
  max_output_tokens: 100
  tenants:
    - {name: chat, calls: {count: 500, rate: 2, input_tokens: {lognormal: {mean: 50, sigma: 1}}, output_tokens: {exponential: {mean: 40}}}}
    - {name: code, trace: {name: azure-code, speed_up: 2}}
`

func TestReadSharing(t *testing.T) {
	s, err := Read("good.yaml", "good", []byte(goodSharing))
	if err != nil {
		t.Fatal(err)
	}
	want := &Sharing{
		Slots: 8, PerInput: 200 * time.Microsecond, PerOutput: 10 * time.Millisecond, MaxOutput: 100,
		Tenants: []Tenant{
			{Name: "chat", SpeedUp: 1, Calls: Calls{500, 2, Distribution{Lognormal, 50, 1}, Distribution{Exponential, 40, 0}}},
			{Name: "code", Trace: "azure-code", SpeedUp: 2},
		},
		Weights: [][]int64{{1, 1}, {1, 3}}, // in the order of the tenants
	}
	if s.About != "two tenants" || len(s.Seeds) != 2 || !reflect.DeepEqual(s.Sharing, want) {
		t.Errorf("%+v, want %+v", s.Sharing, want)
	}
}

func TestReadSharingFaults(t *testing.T) {
	for _, tt := range []struct{ name, old, with, want string }{
		{"no slots", "  slots: 8\n", "", "sharing.slots: is missing"},
		{"weight 0", "code: 3", "code: 0", "sharing.weights[1].code: must be a whole number from 1 to 1000000"},
		{"a weight is missing", "{code: 3, chat: 1}", "{code: 3}", "sharing.weights[1].chat: is missing"},
		{"whose weight?", "code: 3", "coda: 3", "did you mean code?"},
		{"no weights", "\n    - {chat: 1, code: 1}\n    - {code: 3, chat: 1}", " []",
			"sharing.weights: must be a list of 1 to 32, not of 0"},
		{"one tenant", "    - {name: code, trace: {name: azure-code, speed_up: 2}}\n", "",
			"sharing.tenants: must be a list of 2 to 16, not of 1"},
		{"the same name", "name: code", "name: chat", `another one is called "chat" already`},
		{"no calls", ", trace: {name: azure-code, speed_up: 2}", "", "sharing.tenants[1]: must have either a trace or calls"},
		{"a fleet as well", "seeds: [3, 4]", "fleet: []", "fleet: unknown key"},
		// 14 × 1000 seeds × 2 weights × 500,000 calls = 1.4e10.
		{"too much", "seeds: [3, 4]", "seeds: 1000", "are 1.4e+10 dispatches, and 1e+10 are the most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(goodSharing, tt.old, tt.with, 1)
			if tt.name == "too much" {
				text = strings.Replace(text, "count: 500,", "count: 500000,", 1)
			}
			_, err := Read("bad.yaml", "bad", []byte(text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
}

// TestCallsAreDrawn with the means that the file says, from the seed alone.
func TestCallsAreDrawn(t *testing.T) {
	c := Calls{Count: 20_000, Rate: 2, Input: Distribution{Shape: Exponential, Mean: 50},
		Output: Distribution{Shape: Exponential, Mean: 40}}
	calls := c.Draw(1, 0, 100)
	if !reflect.DeepEqual(calls, c.Draw(1, 0, 100)) {
		t.Error("the second time they are different")
	}
	if reflect.DeepEqual(calls, c.Draw(1, 1, 100)) || reflect.DeepEqual(calls, c.Draw(2, 0, 100)) {
		t.Error("another tenant, or another seed, has the same calls")
	}
	input, output := 0.0, 0.0
	for i, q := range calls {
		input, output = input+q.Input, output+q.Output
		if q.Input < 1 || q.Output < 1 || q.Output > 100 || i > 0 && q.At < calls[i-1].At {
			t.Fatalf("call %d is %+v", i, q)
		}
	}
	// An exponential with the mean 40 that is cut at 100 has the mean 40·(1−e^−2.5) = 36.7. The
	// standard deviations of means of 20,000 are 0.7 % or less.
	n := float64(c.Count)
	for _, m := range []struct{ got, want float64 }{{input / n, 50}, {output / n, 36.7},
		{calls[c.Count-1].At.Seconds() / n, 0.5}} {
		if math.Abs(m.got/m.want-1) > 0.03 {
			t.Errorf("mean %v, want about %v", m.got, m.want)
		}
	}
}
