package setup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
)

func CheckCommand(a *cli.App) *cobra.Command {
	var schema bool
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check agents.yaml and quotas.yaml and show what they mean",
		Long: `Reads agents.yaml exactly as the coordinator would and reports every fault at
once, one per line, as file:line:column: setting: what is wrong and what to do.
Exit code 1 if any file has a fault, so that a pipeline stops there.

A file in order is shown as it will be used: the agents with their slots, and the
routes with how many agents can serve them. Warnings point at what is allowed and
probably not meant, such as a route that no agent can serve; they do not change the
exit code.

A file with "quotas" in its name is read as quotas.yaml, and shown as the trees of
quotas that it makes. So is the quotas.yaml beside an agents.yaml, which the
coordinator would read as well.

Environment variables are not looked at. --schema prints the JSON Schema of
agents.yaml, --schema quotas that of quotas.yaml, for editors.`,
		Example: `  taskbus check config/agents.yaml
  taskbus check config/*.yaml -o json
  taskbus check --schema > agents.schema.json
  taskbus check --schema quotas > quotas.schema.json`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case !schema && len(args) == 0:
				return cli.UsageError("name at least one file, or ask for --schema")
			case schema && (len(args) > 1 || len(args) == 1 && schemaOf[args[0]] == nil):
				return cli.UsageError("--schema prints that of agents or of quotas")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := a.Out.Write(schemaOf[append(args, "agents")[0]]())
				return err
			}
			return check(a, withQuotas(args))
		},
	}
	c.Flags().BoolVar(&schema, "schema", false,
		"print the JSON Schema of agents.yaml, or of quotas.yaml, and do nothing else")
	return c
}

// schemaOf has the schemas of the files, by what is said to ask for them.
var schemaOf = map[string]func() []byte{"agents": config.Schema, "quotas": config.QuotasSchema}

// checkedFile is what check has to say of one file.
type checkedFile struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Faults   []config.Fault `json:"-"`
	Problems []checkedFault `json:"faults"`
	Version  string         `json:"version,omitempty"`
	Strategy string         `json:"strategy,omitempty"`
	Agents   []checkedAgent `json:"agents,omitempty"`
	Routes   []checkedRoute `json:"routes,omitempty"`
	// Discovery is nil when no agent may join by itself.
	Discovery *checkedDiscovery `json:"discovery,omitempty"`
	// Quotas are those of a quotas.yaml, which has nothing of the others.
	Quotas   *checkedQuotas `json:"quotas,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
}

// checkedDiscovery is which agents may join the fleet without being listed.
type checkedDiscovery struct {
	Agents       []string `json:"agents"`
	Capabilities []string `json:"capabilities"`
	// Queues are those that may be announced beside agent.{id}.
	Queues    []string `json:"queues,omitempty"`
	MaxAgents int      `json:"max_agents"`
	Slots     int      `json:"max_concurrent_tasks"`
}

type checkedFault struct {
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text"`
}

type checkedAgent struct {
	ID           string   `json:"id"`
	Queue        string   `json:"queue"`
	Slots        int      `json:"slots"`
	Rank         int      `json:"rank"`
	Mode         string   `json:"mode"`
	Capabilities []string `json:"capabilities"`
}

type checkedRoute struct {
	Type      string                `json:"task_type"`
	Requires  []string              `json:"required_capabilities"`
	Preferred []coordinator.AgentID `json:"preferred_agents,omitempty"`
	Strategy  string                `json:"strategy"`
	// Agents is how many have the capabilities, Slots what they have together.
	Agents int `json:"agents"`
	Slots  int `json:"slots"`
}

func check(a *cli.App, paths []string) error {
	files := make([]checkedFile, 0, len(paths))
	allOK := true
	for _, path := range paths {
		file, err := checkFile(path)
		if err != nil {
			return err
		}
		allOK = allOK && file.OK
		files = append(files, file)
	}
	err := a.Show(struct {
		Files []checkedFile `json:"files"`
	}{files}, func(p *cli.Page) {
		for i := range files {
			if i > 0 {
				p.Blank()
			}
			files[i].print(p)
		}
	})
	if err != nil || allOK {
		return err
	}
	return cli.ErrReported
}

// checkFile fails only when the file cannot be read.
func checkFile(path string) (checkedFile, error) {
	file := checkedFile{File: path, Problems: []checkedFault{}}
	if isQuotas(path) {
		err := file.checkQuotas()
		return file, err
	}
	cfg, err := config.Load(path, config.Environment{})
	if done, err := file.faulty(err); done {
		return file, err
	}
	cfg = withQuotasBeside(path, cfg)
	p := cfg.Policy()
	file.OK, file.Version, file.Strategy = true, cfg.FileVersion(), p.Strategy
	for i := range p.Agents {
		g := &p.Agents[i]
		file.Agents = append(file.Agents, checkedAgent{string(g.ID), g.Queue, g.MaxConcurrent, g.Rank, g.Pull.String(),
			g.Capabilities})
	}
	if g := p.Discovery; g != nil {
		file.Discovery = &checkedDiscovery{g.Agents, g.Capabilities, g.Queues, g.MaxAgents, g.MaxConcurrent}
	}
	file.Routes = checkRoutes(p)
	for _, w := range cfg.Warnings() {
		file.Warnings = append(file.Warnings, w.Text)
	}
	return file, nil
}

// faulty takes over what is wrong with the file; the error is what keeps it from being read.
func (f *checkedFile) faulty(err error) (done bool, _ error) {
	var faults *config.Faults
	if !errors.As(err, &faults) {
		return err != nil, err
	}
	f.Faults = faults.List
	for _, fault := range faults.List {
		f.Problems = append(f.Problems, checkedFault(fault))
	}
	return true, nil
}

func (f *checkedFile) print(p *cli.Page) {
	switch {
	case !f.OK:
		for _, fault := range f.Faults {
			fmt.Fprintln(p, fault) // whole, however long it is
		}
		p.Line("%s: %s", f.File, cli.Count(len(f.Faults), "fault"))
	case f.Quotas != nil:
		f.Quotas.print(p, f.File)
	default:
		f.printFleet(p)
	}
	for i, text := range f.Warnings {
		if i == 0 {
			p.Blank()
		}
		fmt.Fprintf(p, "warning: %s\n", text)
	}
}

// printFleet shows the agents and the routes of an agents.yaml in order.
func (f *checkedFile) printFleet(p *cli.Page) {
	agents, slots := cli.NewTable("AGENT", "SLOTS", "RANK", "MODE", "QUEUE", "CAPABILITIES"), 0
	for _, g := range f.Agents {
		slots += g.Slots
		agents.Row(g.ID, g.Slots, g.Rank, g.Mode, g.Queue, cli.List(g.Capabilities, 4))
	}
	routes := cli.NewTable("TASK TYPE", "SERVED BY", "STRATEGY", "REQUIRES", "PREFERS")
	for _, r := range f.Routes {
		routes.Row(r.Type, cli.Count(r.Agents, "agent")+", "+cli.Count(r.Slots, "slot"), r.Strategy,
			cli.List(r.Requires, 4), cli.List(r.Preferred, 2))
	}
	p.Line("%s: in order", f.File)
	p.Line("%s with %s, %s, strategy %s, version %s", cli.Count(len(f.Agents), "agent"), cli.Count(slots, "slot"),
		cli.Count(len(f.Routes), "route"), f.Strategy, f.Version)
	if g := f.Discovery; g != nil {
		p.Line("discovery: up to %s with up to %s each may join as %s and offer %s", cli.Count(g.MaxAgents, "agent"),
			cli.Count(g.Slots, "slot"), cli.List(g.Agents, 4), cli.List(g.Capabilities, 4))
		p.Line("discovery: the queue of each is %s",
			strings.Join(append([]string{"agent." + coordinator.QueueID}, g.Queues...), " or "))
	}
	for _, t := range []*cli.Table{agents, routes} {
		if !t.Empty() {
			p.Blank()
			p.Table(t)
		}
	}
}

// checkRoutes is every route with the agents that can serve it, sorted by task type.
func checkRoutes(p *coordinator.Policy) []checkedRoute {
	routes := make([]checkedRoute, 0, len(p.Routes))
	for _, name := range slices.Sorted(maps.Keys(p.Routes)) {
		route := p.Routes[name]
		r := checkedRoute{Type: name, Requires: route.Required, Preferred: route.Preferred, Strategy: route.Strategy}
		if r.Strategy == "" {
			r.Strategy = p.Strategy
		}
		for i := range p.Agents {
			if criteria.Check(criteria.OfRoute(&route), &p.Agents[i]) == coordinator.Eligible {
				r.Agents, r.Slots = r.Agents+1, r.Slots+p.Agents[i].MaxConcurrent
			}
		}
		routes = append(routes, r)
	}
	return routes
}
