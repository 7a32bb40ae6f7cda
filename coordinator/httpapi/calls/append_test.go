package calls

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
	"taskbus/coordinator/view"
)

// An answer about a call is written as encoding/json would write it, whatever is in it.
func TestCallAnswerIsWrittenAsJSON(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "agent-1", "openai@main/gpt-4o", `a"b\c`, "<&>",
		"ü\u2028\x00\xff"}), rapid.String())
	amounts := rapid.Custom(func(t *rapid.T) *CallAmounts {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		n := rapid.Int64()
		return &CallAmounts{
			n.Draw(t, "requests"), n.Draw(t, "input"), n.Draw(t, "output"), n.Draw(t, "total"),
			rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e9), rapid.Just(1e-6)).Draw(t, "cost"),
			rapid.Int64Range(0, 9).Draw(t, "seats"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a := CallAnswer{
			ReservationID: text.Draw(t, "id"), Granted: rapid.Bool().Draw(t, "granted"),
			Standing:    rapid.Bool().Draw(t, "standing"),
			Unconfirmed: rapid.Bool().Draw(t, "unconfirmed"), Agent: text.Draw(t, "agent"), Group: text.Draw(t, "group"),
			Provider: text.Draw(t, "provider"),
			Model:    text.Draw(t, "model"), Pool: text.Draw(t, "pool"), Reserved: amounts.Draw(t, "reserved"),
			Charged:  amounts.Draw(t, "charged"),
			Borrowed: rapid.Bool().Draw(t, "borrowed"),
		}
		if rapid.Bool().Draw(t, "expires") {
			a.ExpiresAt = time.Unix(rapid.Int64Range(0, 1e10).Draw(t, "at"), rapid.Int64Range(0, 1e9).Draw(t, "ns")).UTC()
		}
		for range rapid.IntRange(0, 2).Draw(t, "routes") {
			a.Routes = append(a.Routes, view.CallRoute{Provider: text.Draw(t, "route"), Score: rapid.Float64Range(0, 1).
				Draw(t, "score"), Refusal: text.Draw(t, "refusal")})
		}
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.appendTo(nil); string(got) != string(want) {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
	})
}
