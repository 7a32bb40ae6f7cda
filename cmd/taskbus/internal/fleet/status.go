package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

func StatusCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state in ten lines: the leader, what waits and why, how fast it goes, what is wrong",
		Long: `Shows the state of the whole system in about ten lines, as the leader sees it.

  leader      which instance leads; standbys: what the others of --url are
  agents      how many are online, what keeps those that could take no task now, and
              how many of their slots are in use
  waiting     tasks by where they are: in task.assign and task.assign.high, here
              (read, and waiting for an agent or quota), in lanes; and how old the
              oldest of those here is
  because     what those here wait for, the most frequent first; each kind of them
              with what keeps the agents that it needs
  dead        messages in task.dead, if there are any: what no agent could do, or no
              reader could read
  per second  tasks that came in, were assigned, were done, failed: the average of the
              last minute
  health      the word of /health, and for each check that is not healthy what was
              found and, after the arrow, what to do about it; with several in --url
              also of those that do not lead

Exits with 0 whenever a coordinator has answered, whatever is wrong: scripts ask
taskbus health.`,
		Example: `  taskbus status
  taskbus status --url http://taskbus-1:8551,http://taskbus-2:8551
  taskbus status -o json`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		v, err := lookAt(c.Context(), client)
		if err != nil {
			return err
		}
		return a.Show(v, func(p *cli.Page) { printOverview(p, &v) })
	}
	return c
}

// overview is what `taskbus status` shows: /status without what grows with the fleet.
type overview struct {
	Instance  string         `json:"instance"`
	Version   string         `json:"version"`
	Readiness view.Readiness `json:"readiness"`
	Leader    *view.Leader   `json:"leader,omitempty"`
	// Instances are those of --url and TASKBUS_HTTP_URL, if there are several.
	Instances []cli.Peer     `json:"instances,omitempty"`
	Broker    view.Broker    `json:"broker"`
	Agents    fleetSummary   `json:"agents"`
	Pending   view.Pending   `json:"pending"`
	Waiting   waitingSummary `json:"waiting"`
	// Dead are the messages in task.dead.
	Dead   int         `json:"task_dead"`
	Rates  view.Rates  `json:"rates"`
	Health view.Health `json:"health"`
}

// fleetSummary counts agents.
type fleetSummary struct {
	Total  int `json:"total"`
	Online int `json:"online"`
	// ByState counts by view.Agent.State, WhyNot those online that can take no task now by cause.
	ByState   map[string]int `json:"by_state"`
	WhyNot    map[string]int `json:"why_not"`
	Eligible  int            `json:"eligible"`
	Ejected   int            `json:"ejected"`
	Failing   int            `json:"failing"`
	Slots     int            `json:"slots"`
	SlotsUsed int            `json:"slots_used"`
}

// waitingSummary counts tasks by where they wait.
type waitingSummary struct {
	Assign     int `json:"task_assign"`
	AssignHigh int `json:"task_assign_high"`
	Here       int `json:"here"`
	Lanes      int `json:"lanes"`
}

func (w *waitingSummary) total() int { return w.Assign + w.AssignHigh + w.Here + w.Lanes }

// lookAt asks the coordinator that leads, and of several each what it is.
func lookAt(ctx context.Context, c *cli.Client) (v overview, err error) {
	instances, checks := c.Instances(ctx)
	v.Instances = instances
	s, err := c.Status(ctx)
	if err != nil {
		return v, err
	}
	v.Instance, v.Version, v.Readiness, v.Leader = s.Instance, s.Version, s.Readiness, s.Leader
	v.Broker, v.Pending, v.Rates, v.Health = s.Broker, s.Pending, s.Rates, cli.WithInstances(s.Health, checks)
	v.Agents = summarise(s.Agents)
	v.Waiting.Here = s.Pending.Total + s.Pending.Moving
	for _, q := range s.Queues {
		switch q.Name {
		case bus.QueueAssign:
			v.Waiting.Assign = q.Ready
		case bus.QueueAssignHigh:
			v.Waiting.AssignHigh = q.Ready
		case bus.QueueDead:
			v.Dead = q.Ready
		}
	}
	for _, l := range s.Lanes {
		v.Waiting.Lanes += l.Ready
	}
	return v, nil
}

func summarise(agents []view.Agent) fleetSummary {
	f := fleetSummary{Total: len(agents), ByState: make(map[string]int), WhyNot: make(map[string]int)}
	for i := range agents {
		g := &agents[i]
		f.ByState[g.State]++
		if len(g.Ejected) > 0 {
			f.Ejected++
		}
		if g.Recent.Failing() {
			f.Failing++
		}
		if !g.Online() {
			continue
		}
		f.Online, f.Slots, f.SlotsUsed = f.Online+1, f.Slots+g.Slots, f.SlotsUsed+g.InFlight
		if g.Eligible {
			f.Eligible++
		} else {
			f.WhyNot[cli.Cause(g.WhyNot)]++
		}
	}
	return f
}

// leading reports whether the coordinator that was asked leads.
func (v *overview) leading() bool { return cli.Leads(v.Readiness.State) }

func printOverview(page *cli.Page, v *overview) {
	p := facts{page}
	if l := v.Leader; l != nil {
		p.fact("leader", "%s (%s)%s, epoch %d%s", l.Instance, l.Version, cli.At(l.Address), l.Epoch, p.since(l.Since))
	} else if v.leading() {
		p.fact("leader", "%s (%s)", v.Instance, v.Version)
	} else {
		p.fact("leader", "not known to %s, which is %s", v.Instance, v.Readiness.State)
	}
	switch v.Readiness.State {
	case "active", "standby":
	default:
		if v.Readiness.Detail != v.Broker.LastError { // which comes below
			p.fact("", "%s is %s%s", v.Instance, v.Readiness.State, cli.After(": ", v.Readiness.Detail))
		}
	}
	p.standbys(v)
	p.broker(&v.Broker)
	if !v.leading() {
		if _, lost := v.Health.Checks[cli.CheckLeader]; lost {
			p.fact("", "the rest only the coordinator that leads knows")
		} else if l := v.Leader; l != nil && l.Address != "" {
			p.fact("", "the rest only the coordinator that leads knows; ask that one: --url %s", l.Address)
		} else {
			p.fact("", "the rest only a coordinator that leads knows, and none that was asked does")
		}
		if len(v.Instances) > 0 {
			p.health(v.Health)
		}
		return
	}
	p.agents(&v.Agents)
	p.waiting(v)
	if v.Dead > 0 {
		p.fact("dead", "%s in %s: `taskbus dead ls`", cli.Count(v.Dead, "message"), bus.QueueDead)
	}
	r := v.Rates
	p.fact("per second", "%s in, %s assigned, %s done, %s failed (last minute); %d with agents",
		perSecond(r.Received), perSecond(r.Assigned), perSecond(r.Succeeded), perSecond(r.Failed), v.Pending.Leased)
	p.health(v.Health)
}

// facts is a page of named lines.
type facts struct{ *cli.Page }

const factIndent = 12

// fact is one of them, broken where the width ends.
func (p *facts) fact(name, format string, args ...any) {
	p.Hang(factIndent, name, cli.Wrap(cli.OneLine(fmt.Sprintf(format, args...)), cli.TextWidth-factIndent))
}

// standbys are the other coordinators that were asked.
func (p *facts) standbys(v *overview) {
	var parts []string
	for _, one := range v.Instances {
		switch {
		case cli.Leads(one.State):
		case one.State == "":
			parts = append(parts, fmt.Sprintf("%s does not answer (%s)", one.URL, one.Detail))
		default:
			parts = append(parts, fmt.Sprintf("%s %s", one.URL, one.State))
		}
	}
	switch {
	case len(parts) > 0:
		p.fact("standbys", "%s", strings.Join(parts, "; "))
	case len(v.Instances) == 0:
		p.fact("standbys", "not asked; name all instances with --url A,B or TASKBUS_HTTP_URL")
	}
}

func (p *facts) broker(b *view.Broker) {
	switch {
	case !b.Connected:
		p.fact("broker", "no session with %s%s", b.URL, cli.After(": ", b.LastError))
	case b.Blocked:
		p.fact("broker", "%s holds up publishers: %s", b.URL, b.BlockReason)
	default:
		p.fact("broker", "connected to %s%s, %s", b.URL, p.since(b.Since), cli.Count(len(b.Findings), "finding"))
	}
}

func (p *facts) agents(f *fleetSummary) {
	text := fmt.Sprintf("%d of %s online, %d can take a task now", f.Online, cli.Count(f.Total, "agent"), f.Eligible)
	if len(f.WhyNot) > 0 {
		text += " (" + cli.Counts(f.WhyNot) + ")"
	}
	away := maps.Clone(f.ByState)
	delete(away, "online")
	if len(away) > 0 {
		text += "; away: " + cli.Counts(away)
	}
	text += fmt.Sprintf("; %d of %s in use", f.SlotsUsed, cli.Count(f.Slots, "slot"))
	if f.Ejected+f.Failing > 0 {
		text += fmt.Sprintf("; %d ejected, %d failing (`taskbus agents`)", f.Ejected, f.Failing)
	}
	p.fact("agents", "%s", text)
}

func (p *facts) waiting(v *overview) {
	w := &v.Waiting
	text := fmt.Sprintf("%d: %s %d, %s %d, here %d, lanes %d", w.total(), bus.QueueAssign, w.Assign,
		bus.QueueAssignHigh, w.AssignHigh, w.Here, w.Lanes)
	if v.Pending.OldestSeconds > 0 {
		text += "; the oldest here for " + cli.Shortly(v.Pending.OldestSeconds)
	}
	if in := v.Pending.DrainSeconds; in > 0 {
		text += fmt.Sprintf("; assigned in about %s at this rate", cli.Shortly(in))
	}
	p.fact("waiting", "%s", text)
	if len(v.Pending.ByReason) > 0 {
		p.fact("because", "%s", cli.Counts(v.Pending.ByReason))
	}
	for i, k := range v.Pending.Waits {
		if i == maxKinds {
			p.fact("", "and %s more (-o json)", cli.Count(len(v.Pending.Waits)-i, "kind"))
			break
		}
		what := "no capability"
		if len(k.Required) > 0 {
			what = strings.Join(k.Required, " and ")
		}
		reason, _, _ := strings.Cut(k.Reason, "; nearest")
		p.fact("", "%d for %s: %s", k.Tasks, what, reason)
	}
}

// maxKinds is how many kinds of waiting tasks are shown. -o json has more.
const maxKinds = 3

// health is the word, and what is wrong.
func (p *facts) health(h view.Health) {
	p.fact("health", "%s", h.Status)
	for _, name := range slices.Sorted(maps.Keys(h.Checks)) {
		c := h.Checks[name]
		if c.Status == view.Healthy {
			continue
		}
		p.Hang(factIndent, "", cli.WithAdvice(name+" "+c.Status+": "+c.Detail, c.Advice, cli.TextWidth-factIndent))
	}
}

// perSecond renders a rate with as many digits as a person wants.
func perSecond(rate float64) string {
	if rate > 0 && rate < 9.95 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// since is " for 3h", from a time on; empty when that is not known.
func (p *facts) since(then time.Time) string {
	if d := p.Now().Sub(then); !then.IsZero() && d >= time.Second {
		return " for " + cli.InUnit(d)
	}
	return ""
}
