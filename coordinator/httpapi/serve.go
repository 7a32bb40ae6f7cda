package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// The limits of one connection. They bound what a client costs that is slow,
// dead, or means harm. writeTimeout leaves room for a /metrics of a large fleet.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	stopTimeout       = 3 * time.Second
)

// Serve answers HTTP on the listener until ctx ends, then stops accepting, lets
// the requests in progress finish for up to 3 s, and returns nil. Any other end
// is an error. Serve closes the listener in every case.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), stoppingKey{}, ctx.Done())
		},
		// What net/http would print are faults of clients; panics are reported
		// by New's handler.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving HTTP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	// ctx has ended already; what is in progress gets a little time of its own.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		// A request that outlasts the grace period is cut off: stopping goes first.
		err = server.Close()
	}
	if end := <-ended; err == nil && !errors.Is(end, http.ErrServerClosed) {
		err = end
	}
	if err != nil {
		return fmt.Errorf("stopping HTTP on %s: %w", listener.Addr(), err)
	}
	return nil
}

// stoppingKey is where the context of a request has when its server begins to stop.
type stoppingKey struct{}

// stopping is closed when the server begins to stop: what waits is to end its answer. nil: never.
func stopping(r *http.Request) <-chan struct{} {
	done, _ := r.Context().Value(stoppingKey{}).(<-chan struct{})
	return done
}
