package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) healthCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask whether the coordinator's process is alive (for container health checks)",
		Long: `Asks /livez of the coordinator and exits with 0 when it answers, else with 1. It
does not fail because the broker is away or the fleet is empty: starting the
process again would cure neither. For those ask /readyz and /health.`,
		Example: `  taskbus health
  taskbus health --url http://127.0.0.1:8551

  # Dockerfile
  HEALTHCHECK --interval=30s --timeout=10s --retries=3 CMD ["/taskbus", "health"]`,
		Args: cobra.NoArgs,
	}
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		if err := client.get(c.Context(), "/livez", nil); err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(struct {
				Alive bool `json:"alive"`
			}{true})
		}
		_, err = fmt.Fprintf(a.out, "alive: the coordinator at %s answers\n", client.base)
		return err
	}
	return c
}
