package fleet

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

func HealthCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask how the coordinator, its broker and the fleet are, or with --live whether its process lives",
		Long: `Asks /health of the coordinator and prints the result and the checks behind it. Exit
code 0: healthy or degraded; 1: critical, or no answer.
With several in --url each is asked: a leader that does not answer is critical, a
standby that does not, or has other files than the leader, is degraded.

With --live it asks /livez instead, which answers as long as the process lives: for
the health checks of containers. It does not fail because the broker is away or the
fleet is empty: starting the process again would cure neither.`,
		Example: `  taskbus health
  taskbus health --url http://127.0.0.1:8551 -o json

  # Dockerfile
  HEALTHCHECK --interval=30s --timeout=10s --retries=3 CMD ["/taskbus", "health", "--live"]`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	live := c.Flags().Bool("live", false, "ask only whether the process lives")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		if *live {
			return alive(c.Context(), a, client)
		}
		_, checks := client.Instances(c.Context())
		health, err := healthOf(c.Context(), client)
		if err != nil {
			return err
		}
		health = cli.WithInstances(health, checks)
		err = a.Show(health, func(p *cli.Page) { printHealth(p, health) })
		if err != nil || health.Status == view.Healthy || health.Status == view.Degraded {
			return err
		}
		return cli.ErrReported
	}
	return c
}

// alive asks whether the process lives.
func alive(ctx context.Context, a *cli.App, client *cli.Client) error {
	if err := client.Get(ctx, "/livez", nil); err != nil {
		return err
	}
	return a.Show(struct {
		Alive bool `json:"alive"`
	}{true}, func(p *cli.Page) { p.Line("alive: the coordinator at %s answers", client.Base) })
}

// healthOf asks for the judgement, which is an answer also when it is critical and comes with 503.
func healthOf(ctx context.Context, c *cli.Client) (h view.Health, err error) {
	err = c.Get(ctx, "/health", &h, http.StatusServiceUnavailable)
	if err == nil && h.Status == "" {
		err = fmt.Errorf("%s: the answer of /health has no status; is something else listening there?", c.Asking())
	}
	return h, err
}

// printHealth prints the word, and a line for each check.
func printHealth(p *cli.Page, h view.Health) {
	const indent = 11 + 2 + 8 + 2
	p.Line("%s", messages.Clean(h.Status, cli.MaxCell))
	for _, name := range slices.Sorted(maps.Keys(h.Checks)) {
		check := h.Checks[name]
		head := fmt.Sprintf("%-11s  %-8s  ", messages.Clean(name, cli.MaxCell),
			messages.Clean(check.Status, cli.MaxCell))
		lines := cli.WithAdvice(check.Detail, check.Advice, cli.TextWidth-indent)
		if len(lines) == 0 {
			lines = []string{""}
		}
		p.Hang(indent, head, lines)
	}
}
