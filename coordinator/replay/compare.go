package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/strategy"
)

// DiffersError says that a recording does not replay as it was, so that nothing can be
// founded on it.
type DiffersError struct{ Difference *Difference }

func (e *DiffersError) Error() string {
	return "the recording does not replay as it was, so nothing can be said of another policy: " + e.Difference.String()
}

// ErrNoEndings: there is nothing that the model could draw from.
var ErrNoEndings = errors.New("no agent has reported in the recording how a task ended (task.result): without that " +
	"it is not known how long tasks take, and another policy cannot be compared")

// Compare plays the recording in a modelled world (see the package's documentation),
// under the policies that were recorded and under others. The error is *DiffersError
// where the recording is not what the engine does with it, and ErrNoEndings.
func (r *Recording) Compare(recorded, other Policies) (*Comparison, error) {
	from, until := r.Span()
	f, truly := newFacts(r.count, until), newTally()
	was := &noted{policies: recorded}
	v, err := r.verify(was.policy, func(in *journal.Input, effects []coordinator.Effect) {
		f.take(in.At, in.Event, effects)
		truly.watch(in.At, in.Event, effects)
	})
	switch {
	case err != nil:
		return nil, err
	case v.Difference != nil:
		return nil, &DiffersError{v.Difference}
	}
	f.close()
	h := f.habits()
	if len(h.all) == 0 {
		return nil, ErrNoEndings
	}
	before, after := newTally(), newTally()
	control, err := r.run(f, h, recorded, before.watch)
	if err != nil {
		return nil, err
	}
	is := &noted{policies: other}
	modelled, err := r.run(f, h, is.policy, after.watch)
	if err != nil {
		return nil, err
	}
	c := &Comparison{
		Recording: r.Name, Epoch: r.Epoch, From: from.UTC(), Until: until.UTC(), Seconds: until.Sub(from).Seconds(),
		Decisions: v.Decisions, Before: was.names(), After: is.names(),
		EndingsBefore: endings(control.sources), EndingsAfter: endings(modelled.sources),
		Notes: append(r.Notes(), is.notes(f)...),
	}
	c.Types = compareTypes(truly, before, after)
	c.All = total(c.Types)
	return c, nil
}

// noted remembers the policies that an engine was given.
type noted struct {
	policies Policies
	given    []*coordinator.Policy
}

func (n *noted) policy(recorded *coordinator.Policy) (*coordinator.Policy, error) {
	p, err := n.policies(recorded)
	if err == nil {
		n.given = append(n.given, p)
	}
	return p, err
}

// names says what the policies were: their versions and default strategies.
func (n *noted) names() []PolicyName {
	var names []PolicyName
	for _, p := range n.given {
		if name := (PolicyName{p.Version, p.Strategy}); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

// notes says which agents of the policies never reported: it is not known what they
// would have done.
func (n *noted) notes(f *facts) []string {
	silent := make(map[string]bool)
	for _, p := range n.given {
		for i := range p.Agents {
			id := p.Agents[i].ID
			if a := f.agents[id]; a == nil || len(a.reports) == 0 {
				silent[string(id)] = true
			}
		}
	}
	if len(silent) == 0 {
		return nil
	}
	const most = 5
	names := slices.Sorted(maps.Keys(silent))
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("… (%d in all)", len(silent)))
	}
	return []string{"never reported in the recording, and so gets no task: " + strings.Join(names, ", ")}
}

// endings gives the shares of the sources.
func endings(sources [numSources]int) Endings {
	sum := 0
	for _, n := range sources {
		sum += n
	}
	share := func(n int) float64 { return float64(n) / float64(max(sum, 1)) }
	return Endings{
		AsRecorded: share(sources[asRecorded]), ItsOwn: share(sources[itsOwn]),
		OfOthers: share(sources[ofOthers]), OfAnyType: share(sources[ofAnyType]),
	}
}

// WithStrategy is the policy with another strategy as the default and for every task
// type. A task that asks for a strategy itself still gets it, if it is enabled. One that
// is not enabled is added as it is without options. `market` is refused: no agent bids here.
func WithStrategy(p *coordinator.Policy, name string) (*coordinator.Policy, error) {
	if name == strategy.MarketName {
		return nil,
			fmt.Errorf(
				"use the strategy %s: a recording does not say what agents would have bid; name another strategy, for example "+
					"the fallback of the market", name)
	}
	changed := *p
	if _, enabled := p.Find(name); !enabled {
		s, err := strategy.Build(name, strategy.Defaults())
		if err != nil {
			return nil, fmt.Errorf("use the strategy %s, which the recorded configuration does not enable: %w", name, err)
		}
		changed.Strategies = append(slices.Clone(p.Strategies), s)
		slices.SortFunc(changed.Strategies, func(a, b coordinator.Strategy) int { return strings.Compare(a.Name, b.Name) })
	}
	changed.Strategy = name
	changed.Routes = maps.Clone(p.Routes)
	for taskType, route := range changed.Routes {
		route.Strategy = ""
		changed.Routes[taskType] = route
	}
	return &changed, nil
}

func compareTypes(truly, before, after *tally) []TypeComparison {
	names := make(map[string]bool)
	for _, t := range []*tally{truly, before, after} {
		for name := range t.types {
			names[name] = true
		}
	}
	var list []TypeComparison
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := TypeComparison{Type: name}
		for _, side := range []struct {
			of   *tally
			into *Result
		}{{truly, &c.Recorded}, {before, &c.Before}, {after, &c.After}} {
			if t := side.of.types[name]; t != nil {
				*side.into = t.result()
			}
		}
		c.Shares = shares(before.types[name], after.types[name])
		list = append(list, c)
	}
	return list
}

// shares of the dispatches, the largest change first.
func shares(before, after *typeTally) []Share {
	of := make(map[coordinator.AgentID]*Share)
	count := func(t *typeTally, into func(*Share) *float64) {
		if t == nil {
			return
		}
		sum := 0
		for _, n := range t.given {
			sum += n
		}
		for id, n := range t.given {
			if of[id] == nil {
				of[id] = &Share{Agent: string(id)}
			}
			*into(of[id]) = float64(n) / float64(sum)
		}
	}
	count(before, func(s *Share) *float64 { return &s.Before })
	count(after, func(s *Share) *float64 { return &s.After })
	list := make([]Share, 0, len(of))
	for _, s := range of {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(-cmp.Compare(math.Abs(a.After-a.Before), math.Abs(b.After-b.Before)), strings.Compare(a.Agent, b.Agent))
	})
	return list
}

// span of a recording for people.
func spanText(from, until time.Time) string {
	return fmt.Sprintf("%s, %s", from.Format("2006-01-02 15:04:05Z"), until.Sub(from).Round(time.Second))
}
