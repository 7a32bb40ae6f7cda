package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// How much of an explanation fits a terminal. -o json has all of it.
const (
	maxCandidateRows = 20
	maxRefusedNames  = 4
)

// counts says in words what the tables do not: which agents were not eligible. chosen: an agent was found;
// the text of a refusal has these counts already.
func (p *page) counts(x *httpapi.Explanation, chosen bool) {
	if x.WithoutQuota > 0 {
		p.line("without quota of their own: %d", x.WithoutQuota)
	}
	if !chosen || len(x.Refusals) > 0 {
		return
	}
	if len(x.Refused) > 0 {
		p.line("not eligible: %s", counts(inWords(x.Refused)))
	}
	if len(x.Missing) > 0 {
		p.line("agents that lack a capability: %s", counts(x.Missing))
	}
}

// tables prints candidates, refused agents, and models.
func (p *page) tables(x *httpapi.Explanation) {
	p.candidates(x)
	p.refused(x)
	p.routes(x.Routes, x.Routing)
}

func (p *page) candidates(x *httpapi.Explanation) {
	if len(x.Candidates) == 0 {
		return
	}
	first := x.Candidates[0]
	headers := []string{"CANDIDATE", "FREE"}
	if first.Score != nil {
		headers = append(headers, "SCORE")
	}
	for _, term := range first.Terms {
		headers = append(headers, strings.ToUpper(oneLine(term.Name)))
	}
	t := newTable(headers...)
	for _, c := range x.Candidates[:min(len(x.Candidates), maxCandidateRows)] {
		cells := []any{c.Agent, c.Free}
		if c.Score != nil {
			cells = append(cells, figure(*c.Score))
		}
		for _, term := range c.Terms {
			cells = append(cells, figure(term.Value))
		}
		t.row(cells...)
	}
	p.table(t)
	if more := x.Eligible - min(len(x.Candidates), maxCandidateRows); more > 0 {
		p.line("… and %d more eligible", more)
	}
}

// figure is a number with as many digits as a person wants; empty for none.
func figure(n httpapi.Number) string {
	if math.IsNaN(float64(n)) {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', 4, 64)
}

// refused prints the refused agents, by cause. The order of the causes is that of the nearest agent of
// each; those of which no agent is named come last, the most frequent first.
func (p *page) refused(x *httpapi.Explanation) {
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
		if at, known := soonest[r.Why]; r.FreeIn > 0 && (!known || seconds(r.FreeIn) < at) {
			soonest[r.Why] = seconds(r.FreeIn)
		}
	}
	t := newTable("REFUSED", "AGENTS", "WHO", "A SLOT FREE IN")
	for _, why := range causes {
		free := ""
		if at, known := soonest[why]; known {
			free = "about " + coordinator.Roughly(at) // as the text has it
		}
		n := max(x.Refused[why], len(by[why]))
		t.row(cause(why), n, firstNames(by[why], n), free)
	}
	unnamed := maps.Clone(x.Refused)
	for _, why := range causes {
		delete(unnamed, why)
	}
	for _, why := range byCount(unnamed) {
		t.row(cause(why), unnamed[why], "", "")
	}
	p.table(t)
	if len(x.Missing) > 0 {
		p.line("agents that lack a capability: %s", counts(x.Missing))
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

// seconds is a time of so many of them.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// shortly renders seconds for people: tenths below ten seconds, then seconds, then
// as coordinator.Roughly has it.
func shortly(drain float64) string {
	switch d := seconds(drain); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", drain)
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", drain)
	default:
		return coordinator.Roughly(d)
	}
}

// cause is the code of a refusal for people: the code for a cordoned agent stands for
// one that drains as well.
func cause(why string) string {
	if why == coordinator.Cordoned.String() {
		return "cordoned or draining"
	}
	return why
}

// inWords is counts by cause for people.
func inWords(refused map[string]int) map[string]int {
	words := make(map[string]int, len(refused))
	for why, n := range refused {
		words[cause(why)] = n
	}
	return words
}

// counts renders "5 full, 7 lacks_capability", the largest first, then by name.
func counts(by map[string]int) string {
	parts := make([]string, 0, len(by))
	for _, name := range byCount(by) {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	return strings.Join(parts, ", ")
}

// byCount are the names, the largest count first, then by name.
func byCount(by map[string]int) []string {
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
}
