package sim

import (
	"cmp"
	"fmt"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/replay"
	"taskbus/coordinator/view"
)

// replayedCall is what was answered about a call.
type replayedCall struct {
	At       time.Time        `json:"at"`
	Op       string           `json:"operation"`
	State    string           `json:"state"`
	Agent    string           `json:"agent_id,omitempty"`
	Group    string           `json:"group_id,omitempty"`
	Provider string           `json:"provider,omitempty"`
	Model    string           `json:"model,omitempty"`
	Pool     string           `json:"pool,omitempty"`
	Amounts  map[string]int64 `json:"amounts,omitempty"` // costs in millionths of a US dollar
	Refusal  string           `json:"refusal,omitempty"`
	Routes   []view.CallRoute `json:"routes,omitempty"`

	amounts coordinator.Amounts
}

func newReplayedCall(c *replay.CallAnswer) replayedCall {
	x := &c.Answer
	r := replayedCall{
		At: c.At.UTC(), Op: c.Call.Op.String(), State: x.State.String(), Agent: string(c.Call.Agent), Group: x.Group,
		Provider: x.Provider, Model: x.Model, Pool: x.Pool, amounts: x.Amounts, Routes: gateway.CallRoutes(x),
	}
	for dim, n := range x.Amounts {
		if n != 0 {
			if r.Amounts == nil {
				r.Amounts = make(map[string]int64)
			}
			r.Amounts[coordinator.Dimension(dim).String()] = n
		}
	}
	if x.Lacks != nil {
		r.Refusal = x.Lacks.Text
	}
	return r
}

// replayCall shows what was answered about the call of this reservation, with the scores of what it
// might have gone to.
func replayCall(a *cli.App, flags replayFlags, recordings []*replay.Recording) error {
	wanted := func(c *coordinator.Call) bool {
		return (flags.agent == nil || *flags.agent == string(c.Agent)) &&
			c.Key == coordinator.CallKey(c.Agent, flags.call)
	}
	found := []replayedCall{} // a list in JSON, also without any
	different := false
	for _, r := range recordings {
		answers, v, err := r.Calls((&recordedPolicies{}).find, wanted)
		if err != nil {
			return err
		}
		for i := range answers {
			found = append(found, newReplayedCall(&answers[i]))
		}
		if v.Difference != nil {
			different = true
			fmt.Fprintf(a.Err, "taskbus: recording %s of epoch %d is not decided as it was, and read no further: %s\n",
				r.Name, r.Epoch, cli.OneLine(v.Difference.String()))
		}
	}
	err := a.Show(found, func(p *cli.Page) { printReplayedCalls(p, flags.call, found) })
	if err != nil || !different && len(found) > 0 {
		return err
	}
	return cli.ErrReported
}

func printReplayedCalls(p *cli.Page, id string, found []replayedCall) {
	if len(found) == 0 {
		p.Line("no call of the reservation %s was recorded", id)
	}
	for i := range found {
		c := &found[i]
		if i > 0 {
			p.Blank()
		}
		text := fmt.Sprintf("%s: %s of %s is %s", c.At.Format("2006-01-02 15:04:05.000Z"), c.Op,
			cmp.Or(c.Agent, "a gateway"), c.State)
		if c.Provider != "" {
			text += " at " + cli.ModelOf(c.Provider, c.Model)
		}
		if c.Refusal != "" {
			text += ", " + c.Refusal
		}
		p.Line("%s: %s", text, cli.UsedText(&c.amounts))
		var routes []view.QuotaRoute
		for _, r := range c.Routes {
			routes = append(routes, view.QuotaRoute{CallRoute: r, Why: r.Refusal})
		}
		p.Routes(routes, nil)
	}
}
