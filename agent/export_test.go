package agent

// DialRegistry has the agent connect to registry.url by this.
func (c *Config) DialRegistry(dial dialer) { c.dialRegistry = dial }
