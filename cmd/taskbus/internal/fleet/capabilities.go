package fleet

import (
	"fmt"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
)

func CapabilitiesCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "capabilities",
		Short: "Show what the fleet can do, how much of it is wanted, and what depends on one agent",
		Long: `Shows every capability that agents offer or waiting tasks require.

  AGENTS      agents that offer it
  ONLINE      how many of them are online
  BUS FACTOR  how many of them could be given work: online, steady, not cordoned, not
              ejected. With all of these lost none is left; NOTE warns at 1 and 0
  SLOTS       slots of those that could be given work; FREE: how many are free
  WAITING     tasks that require it and wait
  DEMAND/MIN  tasks a minute that require it; an average with a half-life of five
              minutes`,
		Example: `  taskbus capabilities
  taskbus capabilities -o json`,
		Args: cobra.NoArgs,
	}
	cli.Shows(a, c, "/capabilities", printCapabilities)
	return c
}

func printCapabilities(p *cli.Page, found view.CapabilityList) {
	all := found.Capabilities
	if len(all) == 0 {
		p.Line("no agent offers anything, and no task that waits requires anything")
		return
	}
	t := cli.NewTable("CAPABILITY", "AGENTS", "ONLINE", "BUS FACTOR", "SLOTS", "FREE", "WAITING", "DEMAND/MIN", "NOTE")
	none, one := 0, 0
	for _, c := range all {
		note := ""
		switch c.BusFactor {
		case 0:
			none++
			note = "no agent does it"
		case 1:
			one++
			note = "one agent alone"
		}
		t.Row(c.Name, c.Agents, c.Online, c.BusFactor, c.Slots, c.FreeSlots, c.Waiting,
			fmt.Sprintf("%.1f", c.DemandPerMinute), note)
	}
	p.Table(t)
	kinds := "capabilities"
	if len(all) == 1 {
		kinds = "capability"
	}
	p.Line("%d %s, %d that no agent does now, %d that one agent alone does", len(all), kinds, none, one)
}
