package journal

import (
	"net/http"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
)

func acknowledgeCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "acknowledge",
		Short: "End the alarm about a lost journal",
		Long: `Ends the alarm about a lost journal at every coordinator. One that begins with an empty
journal although there had been one reports that in /health, "taskbus doctor" and the
metric taskbus_journal_lost; restarts and failovers do not end it. --url must include
the leader.` + cli.NeedsToken,
		Example: `  taskbus journal acknowledge
  taskbus journal acknowledge --url http://coordinator.internal:8551`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		done, err := cli.Tell[view.LossAcknowledged](c.Context(), a, *base, http.MethodPost, "/journal/acknowledge",
			struct{}{})
		if err != nil {
			return err
		}
		return a.Show(done, func(p *cli.Page) {
			p.Line("acknowledged: the loss of the journal is not reported any more")
		})
	}
	return c
}
