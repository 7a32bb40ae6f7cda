package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/rls"
)

// listenFlags are where and how gateways, and all other clients over TLS, reach the coordinator.
type listenFlags struct{ rls, cert, key, clientCA string }

func (f *listenFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.rls, "rls", "",
		"address of Envoy's rate-limit service as host:port (default $TASKBUS_RLS, else it is off)")
	flags.StringVar(&f.cert, "tls-cert", "",
		"PEM file of the servers' certificate (default $TASKBUS_TLS_CERT, else no TLS)")
	flags.StringVar(&f.key, "tls-key", "", "PEM file of its key (default $TASKBUS_TLS_KEY)")
	flags.StringVar(&f.clientCA, "client-ca", "",
		"PEM file of the authority of agents' and gateways' certificates (default $TASKBUS_CLIENT_CA, else none "+
			"counts)")
}

// gateways are the listeners' settings, read and checked.
type gateways struct {
	token config.Secret
	names []string
	rls   string // address; empty: it is off
	// certs of the servers; nil: they speak without TLS.
	certs *certificates
	// listener of the rate-limit service, once it listens; nil: it is off.
	listener net.Listener
}

// mostNames bounds the names of gateways, and each of them.
const mostNames = 128

// readGateways reads flags and variables; the certificates are read, too, and nothing listens yet.
func readGateways(a *cli.App, f listenFlags, logger zerolog.Logger) (*gateways, error) {
	g := &gateways{rls: cmp.Or(f.rls, a.Getenv("TASKBUS_RLS"))}
	var err error
	if g.token, err = config.ReadGatewayToken(a.Getenv); err != nil {
		return nil, cli.ConfigError(err)
	}
	cert, key, ca := cmp.Or(f.cert, a.Getenv("TASKBUS_TLS_CERT")), cmp.Or(f.key, a.Getenv("TASKBUS_TLS_KEY")),
		cmp.Or(f.clientCA, a.Getenv("TASKBUS_CLIENT_CA"))
	if names := a.Getenv("TASKBUS_GATEWAY_NAMES"); names != "" {
		for name := range strings.SplitSeq(names, ",") {
			g.names = append(g.names, strings.TrimSpace(name))
		}
	}
	switch {
	case (cert == "") != (key == ""):
		return nil,
			cli.ConfigError(
				errors.New(
					"a certificate needs its key, and a key its certificate: set both --tls-cert (TASKBUS_TLS_CERT) " +
						"and --tls-key (TASKBUS_TLS_KEY), or none of them"))
	case ca != "" && cert == "":
		return nil,
			cli.ConfigError(
				errors.New(
					"--client-ca (TASKBUS_CLIENT_CA) needs --tls-cert and --tls-key: clients show certificates " +
						"inside TLS only"))
	case len(g.names) > 0 && ca == "":
		return nil,
			cli.ConfigError(
				errors.New("TASKBUS_GATEWAY_NAMES needs --client-ca (TASKBUS_CLIENT_CA): without it no certificate " +
					"counts"))
	case len(g.names) > mostNames:
		return nil, cli.ConfigError(fmt.Errorf("TASKBUS_GATEWAY_NAMES has %d names; at most %d are read", len(g.names),
			mostNames))
	case g.rls != "" && g.token.Reveal() == "" && len(g.names) == 0:
		return nil,
			cli.ConfigError(
				errors.New(
					"no client could use the rate-limit service: set TASKBUS_GATEWAY_TOKEN_FILE, or " +
						"TASKBUS_GATEWAY_NAMES with certificates, or leave --rls (TASKBUS_RLS) out"))
	}
	for _, name := range g.names {
		if name == "" || len(name) > mostNames {
			return nil,
				cli.ConfigError(
					fmt.Errorf(
						"TASKBUS_GATEWAY_NAMES must list the common names of certificates, 1 to %d bytes each, "+
							"separated by commas", mostNames))
		}
	}
	if g.rls != "" {
		if _, _, err := net.SplitHostPort(g.rls); err != nil {
			return nil, cli.UsageError("--rls (TASKBUS_RLS) must be host:port such as 127.0.0.1:8552, not %q", g.rls)
		}
	}
	if cert != "" {
		if g.certs, err = readCertificates(cert, key, ca, logger); err != nil {
			return nil, cli.ConfigError(err)
		}
	}
	return g, nil
}

// wrap makes the HTTP server's listener one of TLS, if there is a certificate.
func (g *gateways) wrap(l net.Listener) net.Listener {
	if g.certs == nil {
		return l
	}
	return tls.NewListener(l, g.certs.config("http/1.1"))
}

// scheme of the HTTP server.
func (g *gateways) scheme() string {
	if g.certs == nil {
		return "http://"
	}
	return "https://"
}

// listen has the rate-limit service listen, if it is on.
func (g *gateways) listen() error {
	if g.rls == "" {
		return nil
	}
	var err error
	if g.listener, err = net.Listen("tcp", g.rls); err != nil {
		return fmt.Errorf("listen for Envoy's rate-limit service: %w; choose another address with --rls or TASKBUS_RLS",
			err)
	}
	return nil
}

func (g *gateways) close() error {
	if g.listener == nil {
		return nil
	}
	return g.listener.Close()
}

// address of the rate-limit service; empty: it is off.
func (g *gateways) address() string {
	if g.listener == nil {
		return ""
	}
	return g.listener.Addr().String()
}

// serve answers gateways over gRPC until ctx ends.
func (g *gateways) serve(ctx context.Context, src rls.Source, legacyHeaders bool, logger zerolog.Logger) error {
	if g.listener == nil {
		<-ctx.Done()
		return nil
	}
	opts := rls.Options{LegacyLimitHeaders: legacyHeaders, Report: func(cause any, stack []byte) {
		logger.Error().Str("cause", cli.OneLine(fmt.Sprint(cause))).Bytes("stack", stack).
			Msg("the rate-limit service failed to answer")
	}}
	if g.certs != nil {
		opts.TLS = g.certs.config("h2")
	}
	return rls.Serve(ctx, g.listener, src, gateway.NewRoster([]byte(g.token.Reveal()), g.names), opts)
}
