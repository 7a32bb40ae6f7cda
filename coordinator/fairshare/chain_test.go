package fairshare_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// chainQuotas has every way in which a provider may be shared: a model by weight among all groups
// and agents, one that is given to no group, one of which a group above others alone has a part,
// a provider by weight without models, one that is its limits and nothing else, and one with a
// model of the same name as another's.
const chainQuotas = `
groups:
  - {id: org, provider: openai, model: big}
  - {id: team, parent: org}
  - {id: thrifty, parent: org, model: small}
  - {id: local, parent: org, provider: lab}
  - {id: free}
agents:
  - {id: a1, group_id: team}
  - {id: a2, group_id: team}
  - {id: b1, group_id: free}
providers:
  - provider: openai
    limits: {requests: {rate: 500, per: minute}}
    models:
      - {model: big, limits: {input_tokens: {rate: 30000, per: minute}}, share: by_weight}
      - {model: small, limits: {output_tokens: {amount: 1000, per: day}}}
      - {model: text/embed@2, groups: [{group: org, limits: {input_tokens: {amount: 100, per: day}}}]}
  - {provider: cloud, limits: {requests: {rate: 10, per: second}}, share: by_weight}
  - {provider: lab, limits: {concurrency: {amount: 4}}}
  - {provider: azure, models: [{model: big, limits: {concurrency: {amount: 2}}}]}
`

// TestChainOfACharge: to which nodes something is charged, from the leaf to the root of the pool,
// and then of the provider.
func TestChainOfACharge(t *testing.T) {
	q, err := quotas.Parse([]byte(chainQuotas), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := fairshare.NewLedger()
	l.Install(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), q)
	for _, c := range []struct {
		why, group      string
		agent           coordinator.AgentID
		provider, model string
		pool, service   string
	}{
		{"a model's own node", "free", "", "openai", "small", "pool/free pool", "openai/small openai"},
		{"a model that is not listed goes to its provider", "free", "", "openai", "new", "pool/free pool", "openai"},
		{"so does a call that names no model", "free", "", "openai", "", "pool/free pool", "openai"},
		{"a model of the same name is another's", "free", "", "azure", "big", "pool/free pool", "azure/big azure"},
		{"and one that only another has is not listed", "free", "", "azure", "small", "pool/free pool", "azure"},
		{"a provider that is not known has no limits", "team", "", "other", "big", "pool/org/team pool/org pool", ""},
		{"without a provider a model is none", "free", "", "", "small", "pool/free pool", ""},

		{"the group's model", "org", "", "", "", "pool/org pool", "openai/big/org openai/big openai"},
		{"the model of the group above", "team", "", "", "", "pool/org/team pool/org pool",
			"openai/big/org/team openai/big/org openai/big openai"},
		{"its own model, of the provider above", "thrifty", "", "", "", "pool/org/thrifty pool/org pool",
			"openai/small openai"},
		{"its own provider has not the model above", "local", "", "", "", "pool/org/local pool/org pool", "lab"},
		{"what the task names goes before the group's", "team", "", "openai", "small", "pool/org/team pool/org pool",
			"openai/small openai"},
		{"a model alone is one of the group's provider", "team", "", "", "small", "pool/org/team pool/org pool",
			"openai/small openai"},
		{"one that is not listed, too", "team", "", "", "new", "pool/org/team pool/org pool", "openai"},
		{"another provider has not the group's model", "team", "", "azure", "", "pool/org/team pool/org pool", "azure"},

		{"an agent's part below a model", "team", "a1", "", "", "pool/org/team/a1 pool/org/team pool/org pool",
			"openai/big/org/team/a1 openai/big/org/team openai/big/org openai/big openai"},
		{"its sibling's", "team", "a2", "", "", "pool/org/team/a2 pool/org/team pool/org pool",
			"openai/big/org/team/a2 openai/big/org/team openai/big/org openai/big openai"},
		{"an agent without a group works for its own", "", "a1", "", "", "pool/org/team/a1 pool/org/team pool/org pool",
			"openai/big/org/team/a1 openai/big/org/team openai/big/org openai/big openai"},
		{"one of another group has no part here", "team", "b1", "", "", "pool/org/team pool/org pool",
			"openai/big/org/team openai/big/org openai/big openai"},
		{"nor has one of a group below", "org", "a1", "", "", "pool/org pool", "openai/big/org openai/big openai"},
		{"a group's part without limits of its own", "free", "b1", "openai", "big", "pool/free/b1 pool/free pool",
			"openai/big/free/b1 openai/big/free openai/big openai"},
		{"the part of the nearest group above", "team", "a1", "openai", "text/embed@2",
			"pool/org/team/a1 pool/org/team pool/org pool",
			"openai/text/embed@2/org openai/text/embed@2 openai"},
		{"no part at all", "free", "b1", "openai", "text/embed@2", "pool/free/b1 pool/free pool",
			"openai/text/embed@2 openai"},
		{"an agent's part below a provider, whatever the model", "free", "b1", "cloud", "any", "pool/free/b1 pool/free pool",
			"cloud/free/b1 cloud/free cloud"},

		{"a group that is not known has no part", "stranger", "", "openai", "big", "pool", "openai/big openai"},
		{"nor has its agent", "stranger", "a1", "openai", "big", "pool", "openai/big openai"},
		{"nor has it a provider", "stranger", "", "", "big", "pool", ""},
		{"no group's", "", "", "", "", "pool", ""},
	} {
		p := l.PathOf(&fairshare.Charge{Group: c.group, Agent: c.agent, Provider: c.provider, Model: c.model})
		if got, want := l.Chain(&p), strings.Fields(c.pool+" "+c.service); !slices.Equal(got, want) {
			t.Errorf("%s: %q %q %q %q is charged to\n  %v, want\n  %v", c.why, c.group, c.agent, c.provider, c.model, got, want)
		}
	}
}
