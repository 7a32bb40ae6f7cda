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
		Long: `Coordinators that go on from an empty journal although there had been one report that
in /health, to "taskbus doctor" and in taskbus_journal_lost, after restarts and
failovers too. This ends it for all of them. The leader must be among --url.` + needsToken,
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
