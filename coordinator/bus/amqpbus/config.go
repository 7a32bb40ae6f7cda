package amqpbus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus/internal/wire"
)

// Config says how to reach the broker and how long to wait for it. A zero
// duration means the default given with it.
type Config struct {
	// URL is amqp:// or amqps://user:password@host:port/vhost, with the query
	// parameters cacertfile, certfile, keyfile, server_name_indication,
	// auth_mechanism (plain, external) and heartbeat (seconds, 1 to 65535; it
	// replaces Heartbeat). Reserved characters in user, password and vhost are
	// percent-encoded. It is a secret: no part but host, port,
	// user and vhost is ever shown.
	URL string
	// TLS replaces what the URL says about certificates. It is cloned, and
	// nothing below TLS 1.2 is spoken whatever it says. Used by amqps only.
	TLS *tls.Config
	// Logger gets one WARN line for every Finding.
	Logger zerolog.Logger

	Heartbeat      time.Duration // 10 s; whole seconds. Silence of 1.5 × it is a fault
	DialTimeout    time.Duration // 10 s, for TCP, TLS and the AMQP handshake together
	RequestTimeout time.Duration // 10 s, for each request to the broker
	WriteTimeout   time.Duration // 20 s, for the broker to take what we send
	ConfirmTimeout time.Duration // 30 s, for the next confirm; stands still during an alarm
	CloseTimeout   time.Duration // 5 s, for the goodbye
	LockProbe      time.Duration // 250 ms, between two looks at a lock that is held
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&c.Heartbeat, 10*time.Second)
	def(&c.DialTimeout, 10*time.Second)
	def(&c.RequestTimeout, 10*time.Second)
	def(&c.WriteTimeout, 20*time.Second)
	def(&c.ConfirmTimeout, 30*time.Second)
	def(&c.CloseTimeout, 5*time.Second)
	def(&c.LockProbe, 250*time.Millisecond)
	return c
}

// CheckURL reports whether a broker URL can be used, without showing any of it.
func CheckURL(broker string) error {
	_, err := parseTarget(broker)
	return err
}

// Address is what people may see of a broker URL: scheme, host, port and virtual
// host as they are written there. It is empty for a URL that [CheckURL] refuses,
// which may have parts of the password anywhere.
func Address(broker string) string {
	if CheckURL(broker) != nil {
		return ""
	}
	u, err := url.Parse(broker)
	if err != nil {
		return "" // CheckURL has parsed it
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// target is a broker URL, taken apart.
type target struct {
	addr, host string
	vhost      string
	user       string // empty with external authentication: the broker reads it off the certificate
	password   string
	external   bool
	tls        bool
	cacert     string
	cert, key  string
	serverName string
	heartbeat  time.Duration // 0: the URL says nothing about it
}

// String is what people may see of it.
func (t *target) String() string {
	return fmt.Sprintf("%s (virtual host %q, user %q)", t.addr, t.vhost, t.user)
}

// parseTarget never quotes its argument: url.Error would show the password, and
// a reserved character that was not encoded moves parts of the password into
// what looks like host, port or path.
func parseTarget(broker string) (*target, error) {
	bad := func(what string) error {
		return fmt.Errorf(
			"broker URL (not shown, it holds a password): %s; expected amqp://user:password@host:5672/vhost with reserved "+
				"characters percent-encoded", what)
	}
	scheme, rest, ok := strings.Cut(broker, "://")
	if !ok || (scheme != "amqp" && scheme != "amqps") {
		return nil, bad("the scheme is neither amqp nor amqps")
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.Count(authority, "@") > 1 || strings.Contains(path, "@") {
		return nil, bad("more than one @, or one after the host")
	}
	u, err := url.Parse(broker)
	if err != nil || u.Fragment != "" {
		return nil, bad("it cannot be parsed")
	}
	uri, err := amqp.ParseURI(broker)
	if err != nil {
		return nil, bad("host, port or a query parameter is not valid")
	}
	t := &target{
		addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), host: uri.Host,
		vhost: uri.Vhost, user: uri.Username, password: uri.Password,
		tls: scheme == "amqps", cacert: uri.CACertFile, cert: uri.CertFile, key: uri.KeyFile,
		serverName: uri.ServerName,
	}
	if len(t.vhost) > bus.ShortString || len(t.user) > bus.ShortString {
		return nil, bad("user or virtual host is longer than 255 bytes")
	}
	if asked := u.Query()["heartbeat"]; len(asked) > 0 {
		seconds, err := strconv.ParseUint(asked[0], 10, 16)
		if err != nil || seconds == 0 {
			// Without heartbeats the broker keeps the lock of a coordinator that is cut
			// off for as long as the kernel keeps its connection.
			return nil, bad("heartbeat is no whole number of seconds from 1 to 65535")
		}
		t.heartbeat = time.Duration(seconds) * time.Second
	}
	switch mechanisms := uri.AuthMechanism; {
	case len(mechanisms) == 0, len(mechanisms) == 1 && strings.EqualFold(mechanisms[0], "plain"):
	case len(mechanisms) == 1 && strings.EqualFold(mechanisms[0], "external"):
		t.external, t.user = true, ""
	default:
		return nil, bad("auth_mechanism is neither plain nor external")
	}
	return t, nil
}

func (t *target) sasl() []amqp.Authentication {
	if t.external {
		return []amqp.Authentication{&amqp.ExternalAuth{}}
	}
	return []amqp.Authentication{&amqp.PlainAuth{Username: t.user, Password: t.password}}
}

// tlsConfig merges base (may be nil) with what the URL says.
func (t *target) tlsConfig(base *tls.Config) (*tls.Config, error) {
	var cfg *tls.Config
	if base != nil {
		cfg = base.Clone()
	} else {
		cfg = &tls.Config{ServerName: t.serverName}
		if t.cacert != "" {
			pem, err := os.ReadFile(t.cacert)
			if err != nil {
				return nil, fmt.Errorf("read the CA certificate of the broker: %w", err)
			}
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("no certificate in %s", t.cacert)
			}
		}
		if t.cert != "" || t.key != "" {
			pair, err := tls.LoadX509KeyPair(t.cert, t.key)
			if err != nil {
				return nil, fmt.Errorf("load the client certificate for the broker: %w", err)
			}
			cfg.Certificates = []tls.Certificate{pair}
		}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = t.host
	}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	return cfg, nil
}

// dialWire opens TCP and, if asked for, TLS. The handshake deadline stays set.
func (b *Bus) dialWire(ctx context.Context, t *target) (*wire.Wire, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.DialTimeout)
	defer cancel()
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", t.addr) // with TCP_NODELAY, as always in Go
	if err != nil {
		return nil, err
	}
	by := time.Now().Add(b.cfg.DialTimeout) // the end of ctx is the caller's to watch
	conn := socket
	if t.tls {
		cfg, err := t.tlsConfig(b.cfg.TLS)
		if err == nil {
			secure := tls.Client(socket, cfg)
			conn, err = secure, secure.HandshakeContext(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, socket.Close())
		}
	}
	w := wire.New(conn, socket, b.cfg.WriteTimeout)
	if err := w.Deadline(by); err != nil {
		w.Kill(err)
		return nil, err
	}
	return w, nil
}
