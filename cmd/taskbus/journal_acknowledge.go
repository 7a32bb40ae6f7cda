package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

func (a *app) journalAcknowledgeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "acknowledge",
		Short: "End the alarm about a lost journal",
		Long: `Ends the alarm about a lost journal at every coordinator. One that begins with an empty
journal although there had been one reports that in /health, "taskbus doctor" and the
metric taskbus_journal_lost; restarts and failovers do not end it. --url must include
the leader.` + needsToken,
		Example: `  taskbus journal acknowledge
  taskbus journal acknowledge --url http://coordinator.internal:8551`,
		Args: cobra.NoArgs,
	}
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.newAdminClient(*base)
		if err != nil {
			return err
		}
		var done httpapi.LossAcknowledged
		if err := client.change(c.Context(), http.MethodPost, "/journal/acknowledge", struct{}{}, &done); err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(done)
		}
		_, err = fmt.Fprintln(a.out, "acknowledged: the loss of the journal is not reported any more")
		return err
	}
	return c
}
