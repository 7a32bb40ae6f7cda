package sim

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config/yamlconf"
	"taskbus/coordinator/simulator"
)

// sharingFlags are those of scenarios with tenants that share a provider.
type sharingFlags struct {
	tenants string
	slots   int
	given   bool // one of them
}

func (s *sharingFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.tenants, "tenants", "",
		"weights of the tenants that share, e.g. chat:1,code:3 (default: as the scenario says)")
	f.IntVar(&s.slots, "slots", 0, "calls that the shared provider works on at a time (default: as the scenario says)")
}

// check what can be checked without the scenario.
func (s *sharingFlags) check(f *pflag.FlagSet) error {
	s.given = f.Changed("tenants") || f.Changed("slots")
	if f.Changed("slots") && (s.slots < 1 || s.slots > simulator.MaxSlots) {
		return cli.UsageError("--slots must be from 1 to %d, not %d", simulator.MaxSlots, s.slots)
	}
	if f.Changed("tenants") && s.tenants == "" {
		return cli.UsageError("--tenants must give weights, e.g. chat:1,code:3")
	}
	return nil
}

// apply puts weights and slots in place of the scenario's.
func (s *sharingFlags) apply(all *simulateFlags, scenario *simulator.Scenario) error {
	shared := scenario.Sharing
	switch {
	case shared == nil && s.given:
		return cli.UsageError("--tenants and --slots are for scenarios with tenants that share a provider, such as " +
			"sharing")
	case shared == nil:
		return nil
	case all.timing:
		return cli.UsageError("--timing is for scenarios with strategies; the tenants of %s share a provider",
			scenario.Name)
	case all.plot != "":
		return cli.UsageError("--plot is for scenarios with agents; of tenants that share a provider there is no chart")
	}
	if s.slots > 0 {
		shared.Slots = s.slots
	}
	if s.tenants == "" {
		return nil
	}
	weights, err := tenantWeights(s.tenants, shared.Tenants)
	if err != nil {
		return err
	}
	shared.Weights = [][]int64{weights}
	return nil
}

// tenantWeights reads NAME:WEIGHT,… of all tenants, in any order.
func tenantWeights(text string, tenants []simulator.Tenant) ([]int64, error) {
	names := make([]string, len(tenants))
	weights := make([]int64, len(tenants))
	number := make(map[string]int)
	for i := range tenants {
		names[i], number[tenants[i].Name] = tenants[i].Name, i
	}
	for _, part := range strings.Split(text, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ":")
		i, known := number[name]
		w, err := strconv.ParseInt(weight, 10, 64)
		switch {
		case !known:
			return nil, cli.UsageError("--tenants: the scenario has no tenant %q%s", name,
				yamlconf.DidYouMean(name, names))
		case weights[i] > 0:
			return nil, cli.UsageError("--tenants gives %s a weight twice", name)
		case err != nil || w < 1 || w > simulator.MaxTenantWeight:
			return nil, cli.UsageError("--tenants: the weight of %s must be a whole number from 1 to %d, not %q", name,
				simulator.MaxTenantWeight, weight)
		}
		weights[i] = w
	}
	for i, w := range weights {
		if w == 0 {
			return nil, cli.UsageError("--tenants gives %s no weight; give all of %s one", names[i],
				strings.Join(names, ", "))
		}
	}
	return weights, nil
}
