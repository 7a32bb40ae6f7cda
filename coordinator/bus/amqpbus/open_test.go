package amqpbus_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	u, err := url.Parse(broker.URL)
	if err != nil {
		t.Fatal("the broker's URL does not parse")
	}
	const canary = "canary-7c1f"
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	with := func(host, vhost, user, password string) string {
		c := *u
		c.Host, c.Path, c.User = host, "/"+vhost, url.UserPassword(user, password)
		return c.String()
	}
	real, _ := u.User.Password()
	for name, test := range map[string]struct {
		url    string
		access bool
	}{
		"wrong password":      {with(u.Host, broker.VHost, u.User.Username(), canary), true},
		"wrong vhost":         {with(u.Host, "nowhere", u.User.Username(), real), true},
		"wrong port":          {with(closed.Addr().String(), broker.VHost, "u", canary), false},
		"unknown host":        {with("host.invalid:5672", broker.VHost, "u", canary), false},
		"bad URL":             {"amqp://u:" + canary + "%zz@host", false},
		"TLS to a plain port": {strings.Replace(with(u.Host, broker.VHost, "u", canary), "amqp://", "amqps://", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			b := amqpbus.New(amqpbus.Config{URL: test.url, Logger: zerolog.New(&log)})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := b.Open(ctx, bus.SessionSpec{Name: "t"})
			if err == nil || errors.Is(err, bus.ErrAccess) != test.access {
				t.Fatalf("Open gives %v; want an error, ErrAccess %v", err, test.access)
			}
			shown := fmt.Sprintf("%v %+v %#v", err, err, err) + log.String()
			for _, secret := range []string{canary, real} {
				if strings.Contains(shown, secret) {
					t.Error("a password is shown")
				}
			}
		})
	}
}

func TestMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	user := broker.AddUser(t, "amqpbus-restricted")
	broker.SetPermissions(t, "amqpbus-restricted", "^$", "^q$", "^$")
	_, err := amqpbus.New(config(t, user.URL)).Open(t.Context(), bus.SessionSpec{Name: "t", Topology: quorum("q")})
	if !errors.Is(err, bus.ErrAccess) || !strings.Contains(err.Error(), "configure permission on q") {
		t.Errorf("Open gives %v, want ErrAccess with permission and object", err)
	}
	broker.DeclareQueue(t, "q", nil)
	s := open(t, config(t, user.URL),
		bus.SessionSpec{Name: "t", Topology: bus.Topology{Mode: bus.Verify,
			Queues: []bus.Queue{{Name: "q", Kind: bus.Classic}}}})
	err = s.Subscribe(t.Context(), bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(bus.Delivery) {}})
	if !errors.Is(err, bus.ErrAccess) || !strings.Contains(err.Error(), "read permission on q") {
		t.Errorf("Subscribe gives %v, want ErrAccess with permission and object", err)
	}
}

// Looking needs no permission on this broker, comparing does. What cannot be
// compared is used, and nothing is relied on.
func TestVerifyWithoutPermissionToCompare(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	topology := quorum("agent", "plain")
	topology.Queues[0].DeadLetter = "back"
	open(t, config(t, broker.URL), bus.SessionSpec{Name: "t", Topology: topology})
	user := broker.AddUser(t, "amqpbus-looker")
	broker.SetPermissions(t, "amqpbus-looker", "^$", ".*", ".*")
	topology.Mode = bus.Verify
	s := open(t, config(t, user.URL), bus.SessionSpec{Name: "t", Topology: topology})
	if s.User() != "amqpbus-looker" {
		t.Errorf("User = %q, want amqpbus-looker", s.User())
	}
	if s.Matches("agent") || s.Matches("plain") {
		t.Error("Matches is true for a queue that could not be compared")
	}
	want := map[string]bool{"agent": true, "plain": false} // whether something is lost by it
	found := s.Findings()
	for _, f := range found {
		if !strings.Contains(f.Text, "lacks the configure permission") ||
			strings.Contains(f.Text, "no expiration") != want[f.Object] {
			t.Errorf("%s: %s; want the permission named, and the expiration: %v", f.Object, f.Text, want[f.Object])
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d findings, want %d: %v", len(found), len(want), found)
	}
}

func TestFindingsSayWhatIsLostAndAreLoggedOnce(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	broker.DeclareQueue(t, "plain", nil)
	broker.DeclareQueue(t, "no stream", nil)
	broker.DeclareQueue(t, "odd", map[string]any{"x-max-length": 7})
	broker.DeclareExchange(t, "x", "direct")
	var log bytes.Buffer
	cfg := config(t, broker.URL)
	cfg.Logger = zerolog.New(&log)
	topology := quorum("plain", "odd")
	topology.Queues = append(topology.Queues, bus.Queue{Name: "no stream", Kind: bus.Stream})
	topology.Exchanges = []bus.Exchange{{Name: "x", Kind: bus.Topic}}
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: topology})
	if _, err := s.EnsureQueue(t.Context(), topology.Queues[0]); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"plain":     "exists as a plain durable queue instead of a quorum",
		"odd":       "exists with other arguments than a quorum queue",
		"no stream": "does not see the past",
		"x":         "durable topic exchange",
	}
	findings := s.Findings()
	for _, f := range findings {
		if !strings.Contains(f.Text, want[f.Object]) {
			t.Errorf("%s: %s; want it to say %q", f.Object, f.Text, want[f.Object])
		}
	}
	if lines := strings.Count(log.String(), `"level":"warn"`); len(findings) != len(want) || lines != len(want) {
		t.Errorf("%d findings and %d warnings, want %d of each:\n%s", len(findings), lines, len(want), log.String())
	}
}

// Queues are declared side by side; what is shown of them is the same with each session all the same.
func TestFindingsHaveTheOrderOfTheTopology(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	want := make([]string, 20)
	for i := range want {
		want[i] = fmt.Sprintf("q%d", i)
		broker.DeclareQueue(t, want[i], nil)
	}
	for range 3 {
		s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t", Topology: quorum(want...)})
		var got []string
		for _, f := range s.Findings() {
			got = append(got, f.Object)
		}
		if !slices.Equal(got, want) {
			t.Errorf("findings about %v, want them about %v", got, want)
		}
	}
}

func TestBrokerOfASession(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	got := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t"}).Broker()
	if got.Product != "RabbitMQ" || !strings.Contains(broker.Ctl(t, "version"), got.Version) ||
		!strings.Contains(got.ClusterName, "@") {
		t.Errorf("%+v; want RabbitMQ, its version, and the name of its cluster", got)
	}
}

func TestDeletedLockEndsTheSession(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t"})
	if err := s.TakeLock(t.Context(), "leader", nil); err != nil {
		t.Fatal(err)
	}
	// An exclusive queue can be deleted only by its connection and the operator.
	broker.Ctl(t, "delete_queue", "-p", broker.VHost, "leader")
	within(t, "the session to end", s.Done())
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "leader") {
		t.Errorf("Err = %v, want it to name the lock", s.Err())
	}
}

func TestTopologyOfAHundredAgents(t *testing.T) {
	t.Parallel()
	agents := make([]string, 100)
	for i := range agents {
		agents[i] = fmt.Sprintf("agent.a%d", i)
	}
	cfg := config(t, brokertest.Vhost(t).URL)
	topology := bus.Standard(bus.Declare, bus.ProfileQuorum, agents)
	for _, round := range []string{"created", "declared again"} {
		start := time.Now()
		s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: topology})
		t.Logf("%d queues %s in %v", len(topology.Queues), round, time.Since(start).Round(time.Millisecond))
		if found := s.Findings(); len(found) != 0 {
			t.Errorf("%s: %v", round, found)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, caFile := selfSigned(t)
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.1": tls.VersionTLS11} {
		_, u := newProxy(t, brokertest.Vhost(t).URL, &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10, MaxVersion: version,
		})
		query := url.Values{"cacertfile": {caFile}, "server_name_indication": {"broker.test"}}
		u.RawQuery = query.Encode()
		ledger := newLedger()
		s, err := amqpbus.New(config(t, u.String())).
			Open(t.Context(), bus.SessionSpec{Name: "t", Topology: quorum("q"), OnSettled: ledger.settle})
		if version < tls.VersionTLS12 {
			if err == nil {
				t.Errorf("TLS %s was spoken", name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("TLS %s: %v", name, err)
		}
		if err := s.Publish(bus.Publication{Key: "q", Body: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
		if got := within(t, "the confirm", ledger.arrived); got != bus.Confirmed {
			t.Errorf("TLS %s: %v", name, got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"broker.test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
