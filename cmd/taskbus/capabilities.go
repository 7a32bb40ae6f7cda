package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

func (a *app) capabilitiesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "capabilities",
		Short: "Show what the fleet can do, how much of it is wanted, and what hangs on one agent",
		Long: `Shows every capability that agents offer or waiting tasks require.

  AGENTS      offer it
  ONLINE      of them are there
  BUS FACTOR  of them could be given work: online, steady, not cordoned, not ejected.
              So many may be lost until nobody is left who does it; NOTE warns at 1
              and at 0
  SLOTS       of those that could be given work, FREE of them free
  WAITING     tasks that require it and wait
  DEMAND/MIN  tasks that require it and come in a minute; the average forgets half in
              five minutes`,
		Example: `  taskbus capabilities
  taskbus capabilities -o json`,
		Args: cobra.NoArgs,
	}
	shows(a, c, "/capabilities", func(found httpapi.CapabilityList) error { return printCapabilities(a.out, found.Capabilities) })
	return c
}

func printCapabilities(w io.Writer, all []httpapi.Capability) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no agent offers anything, and no task that waits requires anything")
		return err
	}
	t := newTable("CAPABILITY", "AGENTS", "ONLINE", "BUS FACTOR", "SLOTS", "FREE", "WAITING", "DEMAND/MIN", "NOTE")
	nobody, one := 0, 0
	for _, c := range all {
		note := ""
		switch c.BusFactor {
		case 0:
			nobody++
			note = "nobody does it"
		case 1:
			one++
			note = "one agent alone"
		}
		t.row(c.Name, c.Agents, c.Online, c.BusFactor, c.Slots, c.FreeSlots, c.Waiting, fmt.Sprintf("%.1f", c.DemandPerMinute), note)
	}
	if err := t.print(w); err != nil {
		return err
	}
	kinds := "capabilities"
	if len(all) == 1 {
		kinds = "capability"
	}
	_, err := fmt.Fprintf(w, "%d %s, %d that nobody does now, %d that one agent alone does\n", len(all), kinds, nobody, one)
	return err
}
