package agent

import "time"

// DialRegistry has the agent connect to registry.url by this.
func (c *Config) DialRegistry(dial dialer) { c.dialRegistry = dial }

// RebindWithin has the agent bind its control queue again within this time.
func (c *Config) RebindWithin(d time.Duration) { c.rebindWithin = d }

// Mute takes away what a Task has for its reports, so that it can be compared.
func (t *Task) Mute() { t.report = nil }
