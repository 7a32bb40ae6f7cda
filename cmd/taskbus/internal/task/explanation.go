package task

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// How much of an explanation fits a terminal. -o json has all of it.
const (
	maxCandidateRows = 20
	maxRefusedNames  = 4
)

// counts says in words what the tables do not: which agents were not eligible. chosen: an agent was found;
// the text of a refusal has these counts already.
func counts(p *cli.Page, x *view.Explanation, chosen bool) {
	if x.WithoutQuota > 0 {
		p.Line("without quota of their own: %d", x.WithoutQuota)
	}
	if !chosen || len(x.Refusals) > 0 {
		return
	}
	if len(x.Refused) > 0 {
		p.Line("not eligible: %s", cli.Counts(inWords(x.Refused)))
	}
	if len(x.Missing) > 0 {
		p.Line("agents that lack a capability: %s", cli.Counts(x.Missing))
	}
}

// tables prints candidates, refused agents, and models.
func tables(p *cli.Page, x *view.Explanation) {
	candidates(p, x)
	refused(p, x)
	p.Routes(x.Routes, x.Routing)
}

func candidates(p *cli.Page, x *view.Explanation) {
	if len(x.Candidates) == 0 {
		return
	}
	first := x.Candidates[0]
	headers := []string{"CANDIDATE", "FREE"}
	if first.Score != nil {
		headers = append(headers, "SCORE")
	}
	for _, term := range first.Terms {
		headers = append(headers, strings.ToUpper(cli.OneLine(term.Name)))
	}
	t := cli.NewTable(headers...)
	for _, c := range x.Candidates[:min(len(x.Candidates), maxCandidateRows)] {
		cells := []any{c.Agent, c.Free}
		if c.Score != nil {
			cells = append(cells, figure(*c.Score))
		}
		for _, term := range c.Terms {
			cells = append(cells, figure(term.Value))
		}
		t.Row(cells...)
	}
	p.Blank()
	p.Table(t)
	if more := x.Eligible - min(len(x.Candidates), maxCandidateRows); more > 0 {
		p.Line("… and %d more eligible", more)
	}
}

// figure is a number with as many digits as a person wants; empty for none.
func figure(n view.Number) string {
	if math.IsNaN(float64(n)) {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', 4, 64)
}

// refused prints the refused agents, by cause. The order of the causes is that of the nearest agent of
// each; those of which no agent is named come last, the most frequent first.
func refused(p *cli.Page, x *view.Explanation) {
	if len(x.Refusals) == 0 {
		return
	}
	var causes []string
	by := make(map[string][]string)
	soonest := make(map[string]time.Duration)
	for _, r := range x.Refusals {
		if by[r.Why] == nil {
			causes = append(causes, r.Why)
		}
		by[r.Why] = append(by[r.Why], r.Agent)
		if at, known := soonest[r.Why]; r.FreeIn > 0 && (!known || cli.Seconds(r.FreeIn) < at) {
			soonest[r.Why] = cli.Seconds(r.FreeIn)
		}
	}
	t := cli.NewTable("REFUSED", "AGENTS", "IDS", "A SLOT FREE IN")
	for _, why := range causes {
		free := ""
		if at, known := soonest[why]; known {
			free = "about " + coordinator.Roughly(at) // as the text has it
		}
		n := max(x.Refused[why], len(by[why]))
		t.Row(cli.Cause(why), n, firstNames(by[why], n), free)
	}
	unnamed := maps.Clone(x.Refused)
	for _, why := range causes {
		delete(unnamed, why)
	}
	for _, why := range cli.ByCount(unnamed) {
		t.Row(cli.Cause(why), unnamed[why], "", "")
	}
	p.Blank()
	p.Table(t)
	if len(x.Missing) > 0 {
		p.Line("agents that lack a capability: %s", cli.Counts(x.Missing))
	}
}

// firstNames names the first few of n agents.
func firstNames(names []string, n int) string {
	shown := names[:min(len(names), maxRefusedNames)]
	text := strings.Join(shown, " ")
	if more := n - len(shown); more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}

// inWords is counts by cause for people.
func inWords(refused map[string]int) map[string]int {
	words := make(map[string]int, len(refused))
	for why, n := range refused {
		words[cli.Cause(why)] = n
	}
	return words
}
