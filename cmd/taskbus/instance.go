package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service"
	"taskbus/coordinator/usage/history"
	"taskbus/coordinator/webhook"
)

// parts are what serve has made ready.
type parts struct {
	flags serveFlags
	env   config.Environment
	// agentSecret is what agents' tokens are derived from; empty: none may report.
	agentSecret config.Secret
	// producers is the token by which tasks are submitted over HTTP; empty: only the admin token will do.
	producers config.Secret
	gateways  *gateways
	webhook   config.Webhook
	// authorities of the other coordinators' certificates; nil: those of the system.
	authorities *x509.CertPool

	files    cli.ConfigFiles
	cfg      *config.Config
	listener net.Listener
	logger   zerolog.Logger
}

// instance is one coordinator process: the service, its HTTP server and its reloads.
type instance struct {
	parts
	build   build
	service *service.Service
	handler http.Handler
	reload  *reloader
	history *history.History // nil: none is kept
	alerts  *webhook.Sender  // nil: alerts are not sent
}

func newInstance(a *cli.App, p parts) (*instance, error) {
	if p.flags.pprof && !loopback(p.listener) {
		return nil, cli.UsageError("--pprof shows the inside of the process and needs a loopback address, not %s",
			p.listener.Addr())
	}
	i := &instance{parts: p, build: thisBuild()}
	registry, err := newRegistry(i.build)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	i.reload = newReloader(p.files, p.cfg, func(c *config.Config, err error) { i.service.Reload(c, err) })
	if err := i.keepHistory(a); err != nil {
		return nil, err
	}
	var kept httpapi.History
	source := historySource{i.history, i.reload}
	if i.history != nil {
		kept = source
	}
	if i.alerts, err = p.keepTelling(registry); err != nil {
		return nil, err
	}
	i.service, err = service.New(service.Options{
		Config: p.cfg, ConfigPath: p.files.Agents,
		Bus: a.OpenBus(p.env.RabbitMQURL.Reveal(), p.logger), Logger: p.logger, Registry: registry,
		Instance:  fmt.Sprintf("taskbus@%s#%d", host, os.Getpid()),
		BrokerURL: cli.BrokerAddress(p.env.RabbitMQURL), Version: i.build.Version,
		Address: p.advertised(), PeerToken: string(p.peerToken()), PeerAuthorities: p.authorities,
		SkipCorrupt: p.flags.skipCorrupt,
		History:     kept, Alerted: alerted(i.alerts),
	})
	if err != nil {
		return nil, err
	}
	if i.history != nil {
		i.service.ReportHistory(source.standing)
	}
	options := httpapi.Options{
		LoopbackHosts: loopback(p.listener),
		AdminToken:    []byte(p.env.AdminToken.Reveal()),
		AgentSecret:   []byte(p.agentSecret.Reveal()),
		ProducerToken: []byte(p.producers.Reveal()),
		GatewayToken:  []byte(p.gateways.token.Reveal()),
		GatewayNames:  p.gateways.names,
		PeerToken:     p.peerToken(),
		Leader:        i.service.LeaderElsewhere, PeerAuthorities: p.authorities,
		MaxTaskBytes: p.cfg.MaxMessageBytes,
		History:      kept,

		LegacyLimitHeaders: p.cfg.LegacyRateLimitHeaders,
		Changed: func(c httpapi.Change) {
			p.logger.Info().Str("method", c.Method).Str("path", c.Path).Str("remote", c.Remote).Int("status", c.Status).
				Msg("an order over HTTP")
		},
		Report: func(path string, cause any, stack []byte) {
			p.logger.Error().Str("path", path).Str("cause", cli.OneLine(fmt.Sprint(cause))).Bytes("stack", stack).
				Msg("an HTTP handler failed")
		},
	}
	if p.flags.pprof {
		options.Profiles = profiles()
	}
	i.handler = httpapi.New(i.service, metricsHandler(registry), options)
	return i, nil
}

// advertised is where other coordinators reach this one.
func (p *parts) advertised() string {
	switch {
	case p.env.AdvertiseURL != "":
		return p.env.AdvertiseURL
	case p.cfg.AdvertiseURL != "":
		return p.cfg.AdvertiseURL
	default:
		return p.gateways.scheme() + p.listener.Addr().String()
	}
}

// peerToken is what coordinators know each other by: all of them have the same secret, or token, of
// agents or gateways. Without either no coordinator may ask, and there is nothing to forward.
func (p *parts) peerToken() []byte {
	for _, secret := range []config.Secret{p.agentSecret, p.gateways.token} {
		if text := secret.Reveal(); text != "" {
			return []byte(credential.PeerToken([]byte(text)))
		}
	}
	return nil
}

// newRegistry has what every process shows: Go runtime, process, build.
func newRegistry(b build) (*prometheus.Registry, error) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "taskbus_build_info",
		Help:        "Always 1; its labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the process: %w", err)
		}
	}
	return registry, nil
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		Registry: registry})
}

// profiles is net/http/pprof on a mux of its own.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
