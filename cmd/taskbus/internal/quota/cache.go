package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/agent/quota"
	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/callcache"
	"taskbus/coordinator/httpapi"
)

// cacheGrace bounds the time in which a cache that ends reports what was used.
const cacheGrace = 10 * time.Second

func cacheCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "cache",
		Short: "Answer a gateway's questions on its own machine, out of leases",
		Long: `Answers GET /v1/quota/auth and /v1/quota/auth/settle for a gateway on the same machine,
as a coordinator does, out of leases: quota for several calls that is reserved at once.
So most calls cost no question to a coordinator, and calls go on while none answers,
for as long as a lease has room and its time is not over.

It asks a coordinator with the token of each request. Refusals, calls whose tokens are
not stated, and all other questions about calls are passed on. It needs no secret of
its own. SIGTERM ends it after it has reported what was used.`,
		Example: `  taskbus quota cache --url http://taskbus-1:8551,http://taskbus-2:8551
  taskbus quota cache --listen 127.0.0.1:8553 --calls 16 --for 5s`,
		Args: cobra.NoArgs,
	}
	urls := c.Flags().String("url", "", "`URL`s of the coordinators, separated by commas (default $TASKBUS_HTTP_URL, "+
		"\nelse http://127.0.0.1:${COORDINATOR_PORT:-8551})")
	listen := c.Flags().String("listen", "127.0.0.1:8553", "loopback address on which gateways ask, as host:port")
	calls := c.Flags().Int("calls", 8, "calls of one lease, 1 to 10000")
	ttl := c.Flags().Duration("for", 10*time.Second, "how long a lease stands, 1s to 24h")
	c.RunE = func(c *cobra.Command, _ []string) error {
		host, _, err := net.SplitHostPort(*listen)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return cli.UsageError("--listen must be a loopback address such as 127.0.0.1:8553: tokens come in " +
				"the clear")
		}
		asking, err := a.NewClient(*urls)
		if err != nil {
			return err
		}
		all, client := asking.Bases, &http.Client{Transport: asking.HTTP.Transport}
		// A coordinator does not redirect; the tokens go to coordinators alone.
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cache, err := callcache.New(callcache.Options{
			URLs: all, HTTP: client, Lease: quota.Lease{Calls: *calls, TTL: *ttl},
			Logger: slog.New(slog.NewTextHandler(a.Err, nil)),
		})
		if err != nil {
			return cli.UsageError("%v", err)
		}
		return serveCache(c.Context(), a, cache, *listen, all)
	}
	return c
}

// serveCache serves until it is asked to end, and then reports what was used.
func serveCache(ctx context.Context, a *cli.App, cache *callcache.Cache, address string, urls []string) error {
	ctx, stop := a.Stoppable(ctx)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for gateways: %w", err)
	}
	fmt.Fprintf(a.Err, "answering gateways on http://%s, by leases of %s\n", listener.Addr(), strings.Join(urls, ", "))
	served := httpapi.Serve(ctx, listener, cache)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cacheGrace)
	defer cancel()
	return errors.Join(served, cache.Close(grace))
}
