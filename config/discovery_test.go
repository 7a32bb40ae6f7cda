package config

import (
	"reflect"
	"testing"
	"time"

	"taskbus/coordinator"
)

func TestDiscoveryDefaults(t *testing.T) {
	const agents = "agents: {}\n"
	want := &coordinator.Discovery{
		Agents: []string{"worker-*"}, Capabilities: []string{"gpu"},
		MaxAgents: 1000, MaxConcurrent: 16, ForgetAfter: time.Hour,
		Template: coordinator.AgentSpec{Rank: 3, HealthCheckInterval: 30 * time.Second, Timeout: 300 * time.Second,
			AcceptTimeout: time.Minute},
	}
	for _, test := range []struct {
		name, section string
		want          *coordinator.Discovery
	}{
		{"absent: nobody joins", "", nil},
		{"empty counts as absent", "discovery:\n", nil},
		{"not enabled, whatever it lists", "discovery: {agents: [worker-*], capabilities: [gpu]}\n", nil},
		{"switched off", "discovery: {enabled: false, agents: [worker-*], capabilities: [gpu]}\n", nil},
		{"enabled", "discovery: {enabled: true, agents: [worker-*], capabilities: [gpu]}\n", want},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := mustParse(t, agents+test.section).Policy().Discovery; !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
