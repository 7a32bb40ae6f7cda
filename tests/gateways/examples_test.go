package gateways

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	limit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"gopkg.in/yaml.v3"
)

// example reads a file of the examples as YAML, and gives it as JSON.
func example(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../examples/gateways/" + path)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return asJSON
}

// Envoy's example is what Envoy's protocol buffers and their rules allow, and every descriptor that it
// makes says what the rate-limit service reads.
func TestEnvoyExample(t *testing.T) {
	var b bootstrap.Bootstrap
	if err := protojson.Unmarshal(example(t, "envoy/envoy.yaml"), &b); err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	var m manager.HttpConnectionManager
	if err := b.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(&m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	var l limit.RateLimit
	if err := m.HttpFilters[0].GetTypedConfig().UnmarshalTo(&l); err != nil {
		t.Fatal(err)
	}
	if err := l.ValidateAll(); err != nil || !l.FailureModeDeny || l.RateLimitService.GrpcService.GetEnvoyGrpc().
		GetClusterName() != b.StaticResources.Clusters[0].Name {
		t.Errorf("the rate-limit filter %v: %v", &l, err)
	}
	first := m.GetRouteConfig().VirtualHosts[0].Routes[0]
	// What the route demands of headers: a descriptor with another one might not be made.
	demanded := make(map[string]bool)
	for _, h := range first.Match.Headers {
		demanded[h.Name] = h.GetPresentMatch()
	}
	limits := first.GetRoute().RateLimits
	if len(limits) != 4 {
		t.Fatalf("%d limits, want a request, a peek, and the tokens of both directions", len(limits))
	}
	for i, limit := range limits {
		said := said(t, limit, demanded)
		if said["agent"] == "" || said["provider"] == "" || said["model"] == "" {
			t.Errorf("limit %d says %v", i, said)
		}
		if charges := said["mode"] == "charge"; charges != limit.ApplyOnStreamDone ||
			charges != (limit.HitsAddend.GetFormat() != "") {
			t.Errorf("limit %d with %v is applied at the end: %t, by %v", i, said, limit.ApplyOnStreamDone, limit.HitsAddend)
		}
	}
	if n := limits[1].HitsAddend.GetNumber(); n == nil || n.Value != 0 {
		t.Errorf("the second limit has the hits %v; a peek has 0", n)
	}
}

// said are the keys that a limit's actions give, which must be those that are read.
func said(t *testing.T, limit *route.RateLimit, demanded map[string]bool) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, a := range limit.Actions {
		switch {
		case a.GetGenericKey() != nil:
			all[a.GetGenericKey().DescriptorKey] = a.GetGenericKey().DescriptorValue
		case a.GetRequestHeaders() != nil:
			h := a.GetRequestHeaders()
			if all[h.DescriptorKey] = h.HeaderName; !demanded[h.HeaderName] {
				t.Errorf("an action takes the header %s, without which the route matches as well: such a call would not be limited",
					h.HeaderName)
			}
		}
	}
	for key := range all {
		switch key {
		case "agent", "group", "provider", "model", "operation", "unit", "mode":
		default:
			t.Errorf("nobody reads the key %s", key)
		}
	}
	return all
}

// Kong cannot be run here. Its example is YAML, has one service with the plugin before it, and asks
// what Taskbus answers.
func TestKongExample(t *testing.T) {
	var file struct {
		Format   string `json:"_format_version"`
		Services []struct {
			URL     string
			Routes  []struct{ Paths []string }
			Plugins []struct {
				Name   string
				Config map[string][]string
			}
		}
	}
	if err := json.Unmarshal(example(t, "kong/kong.yml"), &file); err != nil {
		t.Fatal(err)
	}
	if file.Format != "3.0" || len(file.Services) != 1 || len(file.Services[0].Routes) != 1 ||
		len(file.Services[0].Plugins) != 1 {
		t.Fatalf("kong.yml is %+v", file)
	}
	p := file.Services[0].Plugins[0]
	if p.Name != "pre-function" || len(p.Config["access"]) != 1 || len(p.Config["log"]) != 1 {
		t.Fatalf("the plugin is %+v", p)
	}
	for phase, path := range map[string]string{"access": "/v1/quota/auth\"", "log": "/v1/quota/auth/settle\""} {
		if !strings.Contains(p.Config[phase][0], path) {
			t.Errorf("the phase %s does not ask %s", phase, path)
		}
	}
}
