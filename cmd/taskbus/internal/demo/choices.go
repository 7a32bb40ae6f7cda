package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
	"taskbus/coordinator/view"
)

// byClaim is the strategy that a decision names when its agent has claimed the task.
const byClaim = "pull"

// choices are the decisions in which agents had a say: tasks that were offered to them,
// and tasks that they claimed.
type choices struct {
	auctions []auctioned
	claims   []claimed
}

// auctioned is a task for which agents bid, or could have.
type auctioned struct {
	task        coordinator.TaskID
	agent       string
	explanation *view.Explanation
}

// claimed is what one agent claimed.
type claimed struct {
	agent string
	tasks []string
}

// add notes how a task was decided, if an agent had a say.
func (c *choices) add(id coordinator.TaskID, t view.Task) {
	switch t.Strategy {
	case strategy.MarketName:
		if t.Explanation != nil {
			c.auctions = append(c.auctions, auctioned{id, t.Agent, t.Explanation})
		}
	case byClaim:
		i := slices.IndexFunc(c.claims, func(of claimed) bool { return of.agent == t.Agent })
		if i < 0 {
			i = len(c.claims)
			c.claims = append(c.claims, claimed{agent: t.Agent})
		}
		c.claims[i].tasks = append(c.claims[i].tasks, shown(id))
	}
}

// print shows which agents won by which bids, best first, and which claimed what. FITNESS is what the
// coordinator made of a bid, and what decided; CLAIMED what the bidder reported.
func (c *choices) print(out io.Writer) {
	if len(c.auctions) > 0 {
		fmt.Fprintln(out, "\nAUCTION\tWON BY\tBIDDER\tFITNESS\tCLAIMED\tIN HAND\tSECONDS")
	}
	for _, a := range c.auctions {
		task, winner := shown(a.task), a.agent
		for _, bid := range a.explanation.Candidates {
			fitness, yes := term(bid, "fitness")
			if !yes {
				break // no bid decided: these are the candidates of what it falls back to
			}
			own, _ := term(bid, "claimed")
			active, _ := term(bid, "active")
			seconds, _ := term(bid, "duration_s")
			fmt.Fprintf(out, "%s\t%s\t%s\t%.2f\t%.2f\t%.0f\t%.2f\n", task, winner, bid.Agent, fitness, own, active,
				seconds)
			task, winner = "", "" // of the next rows, too
		}
		if task != "" {
			fmt.Fprintf(out, "%s\t%s\tby the fallback: no bid decided\n", task, winner)
		}
	}
	if len(c.claims) > 0 {
		fmt.Fprintln(out, "\nCLAIMED BY\tTASKS")
	}
	slices.SortFunc(c.claims, func(a, b claimed) int { return cmp.Compare(a.agent, b.agent) })
	for _, of := range c.claims {
		fmt.Fprintf(out, "%s\t%d: %s\n", of.agent, len(of.tasks), strings.Join(of.tasks, ", "))
	}
}

// term is a value by which a candidate was judged; false when it was not by that.
func term(c view.Candidate, name string) (float64, bool) {
	i := slices.IndexFunc(c.Terms, func(t view.Term) bool { return t.Name == name })
	if i < 0 {
		return 0, false
	}
	return float64(c.Terms[i].Value), true
}
