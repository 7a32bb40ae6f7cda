package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// The states of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning" // it works, and something should be looked at
	checkProblem = "problem" // it does not work, or not for long
	checkSkipped = "skipped" // it could not be looked at
)

func DoctorCommand(a *cli.App) *cobra.Command {
	d := doctor{app: a}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with the set-up, and say what to do",
		Long: `Looks at everything that Taskbus needs, from agents.yaml to the clocks of the
agents, and prints one line for each check: ok, warning or problem, what was found,
and what to do about it. It asks the broker that RABBITMQ_URL names, as the user it
names, and the coordinator, if one answers.

It changes nothing: it declares, publishes and consumes nothing that others
would see. Permissions are found out by requests that no broker carries out; each of
those, and each look at a queue that does not exist, leaves a line in the broker's
log. It may be run at any time, beside a coordinator that works.

Exit code 1 if there is a problem; warnings do not change it.`,
		Example: `  taskbus doctor
  taskbus doctor --config config/agents.yaml --url http://coordinator:8551
  taskbus doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if d.listen < 0 || d.listen > maxListen {
				return cli.UsageError("--listen must be 0s to %s", maxListen)
			}
			return d.run(c.Context())
		},
	}
	cli.ConfigFlag(c, &d.path)
	cli.QuotasFlag(c, &d.quotas)
	d.url = cli.URLFlag(c)
	c.Flags().DurationVar(&d.listen, "listen", 3*time.Second,
		"how long to wait for heartbeats by which to judge the agents' clocks")
	return c
}

const (
	maxListen   = 10 * time.Minute
	doctorTime  = time.Minute // for everything else at the broker
	requestTime = 10 * time.Second
)

// unknownUser stands in commands for the user of the broker where it is not known.
const unknownUser = "USER"

// doctor is one examination.
type doctor struct {
	app    *cli.App
	path   string
	quotas string
	url    *string
	listen time.Duration

	env     config.Environment
	cfg     *config.Config // nil when it cannot be read
	session bus.Session    // nil when there is none
	led     bool           // a coordinator holds the lock
	blocked bool           // an alarm: the broker takes nothing from publishers
	missing map[string]bool
	report  report
}

// report is what came of it.
type report struct {
	Broker string      `json:"broker,omitempty"`
	Checks []diagnosis `json:"checks"`
}

// diagnosis is what one check found.
type diagnosis struct {
	Check string `json:"check"`
	State string `json:"state"`
	Text  string `json:"text"`
	// Advice says what to do; empty when there is nothing to be done.
	Advice string `json:"advice,omitempty"`
}

func (r *report) add(check, state, text, advice string) {
	r.Checks = append(r.Checks, diagnosis{check, state, cli.OneLine(text), cli.OneLine(advice)})
}

func (r *report) count(state string) (n int) {
	for _, c := range r.Checks {
		if c.State == state {
			n++
		}
	}
	return n
}

func (d *doctor) run(ctx context.Context) error {
	d.examine(ctx)
	if err := d.print(); err != nil || d.report.count(checkProblem) == 0 {
		return err
	}
	return cli.ErrReported
}

// examine goes from what everything else depends on to the particulars.
func (d *doctor) examine(ctx context.Context) {
	d.missing = make(map[string]bool)
	d.checkConfiguration()
	d.examineBroker(ctx)
	// In a time of its own: a broker that does not answer is no reason not to ask.
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	d.checkCoordinator(ctx)
}

func (d *doctor) examineBroker(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime+d.listen)
	defer cancel()
	if d.checkBroker(ctx) {
		d.checkAlarms(ctx)
		d.judgeVersion(d.session.Broker())
		d.checkTopology(ctx)
		d.checkPermissions(ctx)
		d.checkIdentity(ctx)
		d.checkLock(ctx)
		d.checkQueues(ctx)
		d.checkStreams(ctx)
		d.checkClocks(ctx)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()
		_ = d.session.Close(closing) // nothing depends on a goodbye
	}
}

// checkConfiguration reads agents.yaml and the environment as the coordinator would. A
// configuration that cannot be read is no reason to stop: Taskbus's own queues are the
// same whatever it says.
func (d *doctor) checkConfiguration() {
	const check = "configuration"
	env, err := d.app.Environment()
	d.env = env
	if err != nil {
		d.report.add("environment", checkProblem, err.Error(), "correct the variable; `taskbus --help` lists them")
	}
	files, cfg, err := d.app.FindFiles(d.path, d.quotas, env)
	var faults *config.Faults
	switch {
	case errors.As(err, &faults):
		d.report.add(check, checkProblem, fmt.Sprintf("%s has %s, the first: %s", files.Names(),
			cli.Count(len(faults.List), "fault"), faults.List[0]),
			"correct the file; `taskbus check "+files.Paths()+"` lists every fault")
		return
	case err != nil:
		d.report.add(check, checkProblem, err.Error(),
			"name the file with --config or TASKBUS_CONFIG; that of the quotas with --quotas or TASKBUS_QUOTAS")
		return
	}
	d.cfg = cfg
	p := cfg.Policy()
	text := fmt.Sprintf("%s: %s, %s, strategy %s, version %s", files.Names(), cli.Count(len(p.Agents), "agent"),
		cli.Count(len(p.Routes), "route"), p.Strategy, cfg.FileVersion())
	if n := len(cfg.Warnings()); n > 0 {
		d.report.add(check, checkWarning, text+"; "+cli.Count(n, "warning"), "see `taskbus check "+files.Paths()+"`")
		return
	}
	d.report.add(check, checkOK, text, "")
}

// topology is that of the configuration, or of one that says nothing.
func (d *doctor) topology() bus.Topology {
	if d.cfg == nil {
		return bus.Standard(bus.Verify, bus.ProfileQuorum, nil)
	}
	return bus.Standard(bus.Verify, bus.Profile(d.cfg.Queues), d.cfg.AgentQueues())
}

// checkBroker opens the session by which everything else is asked; false when there is
// none.
func (d *doctor) checkBroker(ctx context.Context) bool {
	const check = "broker"
	if amqpbus.CheckURL(d.env.RabbitMQURL.Reveal()) != nil {
		d.report.add(check, checkSkipped, "no URL to connect to", "")
		return false
	}
	where := cli.BrokerAddress(d.env.RabbitMQURL)
	d.report.Broker = where
	began := d.app.Now()
	session, err := d.app.OpenQuietBus(d.env).Open(ctx, bus.SessionSpec{
		Name: cli.SessionName("doctor"), Topology: bus.Topology{Mode: bus.Verify},
		OnSettled: func(uint64, bus.Outcome) {},
	})
	switch {
	case errors.Is(err, bus.ErrLogin):
		d.report.add(check, checkProblem, err.Error(), fmt.Sprintf(
			"correct user and password in RABBITMQ_URL (or the file of RABBITMQ_URL_FILE), or set them: rabbitmqctl "+
				"authenticate_user %s; percent-encode reserved characters",
			cmp.Or(cli.BrokerUser(d.env.RabbitMQURL), unknownUser)))
	case errors.Is(err, bus.ErrAccess):
		d.report.add(check, checkProblem, err.Error(), fmt.Sprintf(
			"see that the virtual host exists (rabbitmqctl list_vhosts) and the user may enter it: rabbitmqctl "+
				"list_permissions -p %s", cli.VirtualHost(d.env.RabbitMQURL)))
	case err != nil:
		advice :=
			"see that the broker runs (rabbitmq-diagnostics check_running), that host and port in RABBITMQ_URL are " +
				"right, and that nothing between here and there is in the way"
		if d.app.BrokerUnset() {
			advice = d.app.BrokerAdvice()
		}
		d.report.add(check, checkProblem, err.Error(), advice)
	default:
		d.session = session
		text := fmt.Sprintf("connected to %s in %d ms", where, d.app.Now().Sub(began).Milliseconds())
		if user := session.User(); user != "" {
			text += " as " + user
		}
		d.report.add(check, checkOK, text, "")
		return true
	}
	return false
}

func (d *doctor) print() error {
	warnings, problems := d.report.count(checkWarning), d.report.count(checkProblem)
	return d.app.Show(struct {
		report
		Warnings int `json:"warnings"`
		Problems int `json:"problems"`
	}{d.report, warnings, problems}, func(p *cli.Page) {
		wide := 0
		for _, c := range d.report.Checks {
			wide = max(wide, len(c.Check))
		}
		indent := len(checkProblem) + wide + 4
		for _, c := range d.report.Checks {
			head := fmt.Sprintf("%-*s  %s", len(checkProblem), c.State, c.Check)
			p.Hang(indent, head, cli.WithAdvice(c.Text, c.Advice, cli.TextWidth-indent))
		}
		p.Blank()
		p.Line("%s, %s", cli.Count(problems, checkProblem), cli.Count(warnings, checkWarning))
	})
}
