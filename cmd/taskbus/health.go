package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
	"taskbus/messages"
)

func (a *app) healthCommand() *cobra.Command {
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
	base := urlFlag(c)
	live := c.Flags().Bool("live", false, "ask only whether the process lives")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		if *live {
			return a.alive(c.Context(), client)
		}
		_, checks := client.instances(c.Context())
		health, err := client.health(c.Context())
		if err != nil {
			return err
		}
		health = withInstances(health, checks)
		if a.output == outputJSON {
			err = a.printJSON(health)
		} else {
			err = printHealth(a.out, health)
		}
		if err == nil && health.Status != httpapi.Healthy && health.Status != httpapi.Degraded {
			err = errReported
		}
		return err
	}
	return c
}

// alive asks whether the process lives.
func (a *app) alive(ctx context.Context, client *client) error {
	if err := client.get(ctx, "/livez", nil); err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printJSON(struct {
			Alive bool `json:"alive"`
		}{true})
	}
	_, err := fmt.Fprintf(a.out, "alive: the coordinator at %s answers\n", client.base)
	return err
}

// health asks for the judgement, which is an answer also when it is critical and comes with 503.
func (c *client) health(ctx context.Context) (h httpapi.Health, err error) {
	err = c.get(ctx, "/health", &h, http.StatusServiceUnavailable)
	if err == nil && h.Status == "" {
		err = fmt.Errorf("%s: the answer of /health has no status; is something else listening there?", c.asking())
	}
	return h, err
}

// printHealth prints the word, and a line for each check.
func printHealth(w io.Writer, h httpapi.Health) error {
	const format = "%-11s  %-8s  %s\n"
	indent := len(fmt.Sprintf(format, "", "", "")) - 1
	var b strings.Builder
	fmt.Fprintln(&b, messages.Clean(h.Status, maxCell))
	for _, name := range slices.Sorted(maps.Keys(h.Checks)) {
		check := h.Checks[name]
		first, status := messages.Clean(name, maxCell), messages.Clean(check.Status, maxCell)
		lines := withAdvice(check.Detail, check.Advice, textWidth-indent)
		for _, line := range append(lines, make([]string, max(0, 1-len(lines)))...) { // one at least
			fmt.Fprintf(&b, format, first, status, line)
			first, status = "", ""
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
