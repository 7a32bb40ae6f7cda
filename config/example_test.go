package config_test

import (
	"fmt"

	"taskbus/config"
)

func ExampleParse() {
	c, err := config.Parse([]byte(`
agents:
  g1: {capabilities: [gpu], max_concurrent_tasks: 4}
task_routing:
  train: {required_capabilities: [gpu], preferred_agents: [g1]}
`), "agents.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	agent := c.Policy().Agents[0]
	fmt.Println(agent.ID, agent.Queue, agent.MaxConcurrent, c.Policy().Strategy)
	// Output: g1 agent.g1 4 capability_match
}

// All faults come at once, each with its place and what to do.
func ExampleParse_faults() {
	_, err := config.Parse([]byte(`agents:
  g1: {capabilities: [gpu], max_concurent_tasks: 4}
topology: verfy
`), "a.yaml")
	fmt.Println(err)
	// Output:
	// a.yaml:2:3: agents.g1.max_concurrent_tasks: is missing; say how many tasks the agent may have at once (at least 1)
	// a.yaml:2:29: agents.g1.max_concurent_tasks: unknown key; did you mean max_concurrent_tasks?
	// a.yaml:3:11: topology: must be one of declare, verify, off, not "verfy"
}
