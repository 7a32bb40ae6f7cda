// Package gateways holds the examples of gateways to what can be known of them without the
// gateways: Envoy's to its protocol buffers, Kong's to its form. nginx's is run, with a real
// coordinator, in tests/integration.
package gateways
