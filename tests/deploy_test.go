package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator/bus"
)

// What can be said of the files for operators without a broker or a Docker
// engine. deploy_broker_test.go loads the definitions into a real node.

// definitions is deploy/rabbitmq/definitions.json.
type definitions struct {
	Users []struct {
		Name, Tags string
		Hash       string `json:"password_hash"`
	}
	Exchanges []struct {
		Name, Type string
		Durable    bool
	}
	Queues []struct {
		Name      string
		Durable   bool
		Arguments map[string]any
	}
	Bindings []struct {
		Source, Destination string
		Key                 string `json:"routing_key"`
	}
}

func TestDefinitionsAreTheStandardTopology(t *testing.T) {
	var got definitions
	if err := json.Unmarshal([]byte(projectFile(t, "deploy/rabbitmq/definitions.json")), &got); err != nil {
		t.Fatal(err)
	}
	want := bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"})

	gotExchanges, wantExchanges := map[string]string{}, map[string]string{}
	for _, x := range got.Exchanges {
		gotExchanges[x.Name] = fmt.Sprintf("%s durable=%t", x.Type, x.Durable)
	}
	for _, x := range want.Exchanges {
		wantExchanges[x.Name] = fmt.Sprintf("%s durable=true", x.Kind)
	}
	compare(t, "exchange", gotExchanges, wantExchanges)

	gotQueues, wantQueues := map[string]string{}, map[string]string{}
	for _, q := range got.Queues {
		if !q.Durable {
			t.Errorf("queue %s is not durable", q.Name)
		}
		gotQueues[q.Name] = render(t, q.Arguments)
	}
	for _, q := range want.Queues {
		wantQueues[q.Name] = render(t, queueArguments(q))
	}
	compare(t, "queue", gotQueues, wantQueues)

	gotBindings, wantBindings := map[string]string{}, map[string]string{}
	for _, b := range got.Bindings {
		gotBindings[b.Source+" → "+b.Destination] = b.Key
	}
	for _, b := range want.Bindings {
		wantBindings[b.Exchange+" → "+b.Queue] = b.Key
	}
	compare(t, "binding", gotBindings, wantBindings)
}

// queueArguments is written from the design's table and not taken from amqpbus:
// two hands have to come to the same arguments.
func queueArguments(q bus.Queue) map[string]any {
	args := map[string]any{"x-queue-type": string(q.Kind)}
	set := func(name string, value any, given bool) {
		if given {
			args[name] = value
		}
	}
	if q.Kind == bus.Stream {
		set("x-max-age", strconv.Itoa(int(q.MaxAge.Seconds()))+"s", q.MaxAge > 0)
		set("x-max-length-bytes", q.MaxBytes, q.MaxBytes > 0)
		set("x-stream-max-segment-size-bytes", q.SegmentBytes, q.SegmentBytes > 0)
		return args
	}
	args["x-overflow"] = "reject-publish"
	set("x-overflow", "drop-head", q.DropHead)
	args["x-delivery-limit"] = q.DeliveryLimit
	set("x-dead-letter-exchange", "", q.DeadLetter != "")
	set("x-dead-letter-routing-key", q.DeadLetter, q.DeadLetter != "")
	set("x-dead-letter-strategy", "at-least-once", q.DeadLetter != "")
	set("x-message-ttl", q.TTL.Milliseconds(), q.TTL > 0)
	set("x-max-length", q.MaxLength, q.MaxLength > 0)
	set("x-consumer-timeout", q.ConsumerTimeout.Milliseconds(), q.ConsumerTimeout > 0)
	return args
}

// render makes one line of the arguments; encoding/json sorts the keys.
func render(t *testing.T, args map[string]any) string {
	t.Helper()
	line, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	// A large whole number read from JSON is a float64 and prints as 5e+09.
	return regexp.MustCompile(`\d+(\.\d+)?e\+\d+`).ReplaceAllStringFunc(string(line), func(s string) string {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatInt(int64(f), 10)
	})
}

func compare(t *testing.T, kind string, got, want map[string]string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("nothing to compare: bus.Standard has no %s", kind)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[name]; !ok {
			t.Errorf("definitions.json lacks the %s %s", kind, name)
		} else if g != want[name] {
			t.Errorf("%s %s in definitions.json: %s, in bus.Standard: %s", kind, name, g, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("definitions.json has a %s that bus.Standard does not have: %s", kind, name)
		}
	}
}

// compose is the part of docker-compose.yml that the invariants are about.
type compose struct {
	Services map[string]struct {
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		Privileged      bool
		Ports, Volumes  []string
		Environment     map[string]string
		DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck     struct{ Test []string }
		StopGracePeriod string `yaml:"stop_grace_period"`
	}
}

func TestComposeFile(t *testing.T) {
	var file compose
	if err := yaml.Unmarshal([]byte(projectFile(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s on every interface; bind it to 127.0.0.1", name, port)
			}
		}
		if s.Privileged || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges: want no-new-privileges and not privileged", name)
		}
		for key, value := range s.Environment {
			if strings.Contains(value, "guest") {
				t.Errorf("%s: %s uses the guest account", name, key)
			}
		}
	}

	rabbit := file.Services["rabbitmq"]
	check := strings.Join(rabbit.Healthcheck.Test, " ")
	for _, want := range []string{"check_running", "check_local_alarms", "check_port_connectivity"} {
		if !strings.Contains(check, want) {
			t.Errorf("rabbitmq's health check %q lacks %s", check, want)
		}
	}
	if !slices.Contains(rabbit.Volumes, "./deploy/rabbitmq/rabbitmq.conf:/etc/rabbitmq/conf.d/20-taskbus.conf:ro") {
		t.Errorf("rabbitmq does not mount the configuration with consumer_timeout: %v", rabbit.Volumes)
	}

	c := file.Services["task-assignment-coordinator"]
	if c.DependsOn["rabbitmq"].Condition != "service_healthy" {
		t.Errorf("the coordinator waits for %v, want rabbitmq to be service_healthy", c.DependsOn)
	}
	if !c.ReadOnly || !slices.Equal(c.CapDrop, []string{"ALL"}) {
		t.Errorf("the coordinator: read_only %t, cap_drop %v; want true, [ALL]", c.ReadOnly, c.CapDrop)
	}
	if !slices.Contains(c.Ports, "127.0.0.1:8551:8551") {
		t.Errorf("the coordinator's ports: %v, want 8551 on loopback", c.Ports)
	}
	if !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/taskbus", "health", "--live"}) {
		t.Errorf("the coordinator's health check is %q; the image has no shell or curl", c.Healthcheck.Test)
	}
	for _, v := range c.Volumes {
		if !strings.HasSuffix(v, ":ro") {
			t.Errorf("the coordinator mounts %s for writing", v)
		}
	}
	// The drain (shutdown_grace_seconds, 20 by default) must fit in.
	if grace, err := time.ParseDuration(c.StopGracePeriod); err != nil || grace < 25*time.Second {
		t.Errorf("stop_grace_period %q is shorter than the coordinator's drain", c.StopGracePeriod)
	}
	// A variable in the URL must be the one RabbitMQ makes its user from.
	for _, variable := range []string{rabbit.Environment["RABBITMQ_DEFAULT_USER"],
		rabbit.Environment["RABBITMQ_DEFAULT_PASS"]} {
		if variable == "" || !strings.Contains(c.Environment["RABBITMQ_URL"], variable) {
			t.Errorf("RABBITMQ_URL %q does not use RabbitMQ's own %q", c.Environment["RABBITMQ_URL"], variable)
		}
	}
}

func TestRabbitConfKeepsLongTasks(t *testing.T) {
	// 24 h × 3600 s × 1000
	if conf := projectFile(t, "deploy/rabbitmq/rabbitmq.conf"); !strings.Contains(conf,
		"\nconsumer_timeout = 86400000\n") {
		t.Error("deploy/rabbitmq/rabbitmq.conf does not set consumer_timeout to 24 h")
	}
}

func TestDockerfile(t *testing.T) {
	text := projectFile(t, "Dockerfile")
	stages := strings.Split(text, "\nFROM ")
	if len(stages) != 3 {
		t.Fatalf("%d stages, want 2 (build, run)", len(stages)-1)
	}
	run := stages[2]
	for what, pattern := range map[string]string{
		"a base image without a shell":  `^(gcr\.io/distroless/static\S*|scratch)`,
		"a user who is not root":        `(?m)^USER [1-9]\d*:[1-9]\d*$`,
		"a health check without curl":   `(?m)^HEALTHCHECK .*CMD \["/taskbus", "health", "--live"\]$`,
		"an address outside can reach":  `TASKBUS_HTTP_BIND=0\.0\.0\.0`,
		"the program as its entrypoint": `(?m)^ENTRYPOINT \["/taskbus"\]$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(run) {
			t.Errorf("the image lacks %s (%s)", what, pattern)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(projectFile(t, "go.mod"))
	if version == nil || !strings.Contains(stages[1], "golang:"+version[1]+" ") {
		t.Errorf("the build stage does not use the Go release of go.mod (%v)", version)
	}
	for _, secret := range []string{".run", ".env", ".git"} {
		if !slices.Contains(strings.Split(projectFile(t, ".dockerignore"), "\n"), secret) {
			t.Errorf(".dockerignore does not keep %s out of the image's build context", secret)
		}
	}
}

// projectFile reads a file by its path in the project.
func projectFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
