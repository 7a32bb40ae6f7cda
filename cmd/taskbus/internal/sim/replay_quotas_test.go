package sim

import (
	"testing"

	"taskbus/config"
	"taskbus/coordinator"
)

// A recorded policy is read again with its quotas; another agents.yaml is tried with the same.
func TestRecordedQuotas(t *testing.T) {
	cfg, err := config.LoadWithQuotas("../setup/testdata/limited/agents.yaml", "../setup/testdata/limited/quotas.yaml",
		config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	// The journal has nothing of a policy but these two.
	recorded := &coordinator.Policy{Version: cfg.Policy().Version, Source: cfg.Policy().Source}
	policies := recordedPolicies{}
	p, err := policies.find(recorded)
	if err != nil || p.Version != recorded.Version || len(policies.notes) > 0 || p.Quotas == nil ||
		len(p.Quotas.Nodes) != len(cfg.Policy().Quotas.Nodes) {
		t.Fatalf("read again: %+v, %v, notes %q", p, err, policies.notes)
	}
	find, err := otherPolicies(replayFlags{config: "../setup/testdata/agents.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := find(recorded)
	if err != nil || other.Quotas == nil || len(other.Quotas.Nodes) != len(p.Quotas.Nodes) ||
		len(other.Agents) == len(p.Agents) {
		t.Errorf("what if: %+v, %v", other, err)
	}
}
