package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// app is what the commands need of the world outside. Tests give them another.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	openBus  func(url string, logger zerolog.Logger) bus.Bus
	// notify takes SIGTERM, SIGINT and SIGHUP over. Commands that do not call it
	// end at once by any of them.
	notify func() <-chan os.Signal
	// giveBack undoes that: the next signal ends the process. nil: there is nothing to undo.
	giveBack func()

	// output is the flag -o.
	output string
	// began is set once flags and arguments are in order: an error before that
	// is one of usage.
	began bool
}

// heartbeat is that of AMQP where RABBITMQ_URL says nothing: a leader that is stopped or cut off keeps its
// lock for two to three of them. RabbitMQ's manual finds less than 5 s prone to false alarms.
const heartbeat = 5 * time.Second

func main() { os.Exit(newMainApp().run(context.Background(), os.Args[1:])) }

// newMainApp is the app of the real world.
func newMainApp() *app {
	return &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		getenv: os.Getenv,
		now:    time.Now,
		openBus: func(url string, logger zerolog.Logger) bus.Bus {
			return amqpbus.New(amqpbus.Config{URL: url, Logger: logger, Heartbeat: heartbeat})
		},
		notify: func() <-chan os.Signal {
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			return signals
		},
		giveBack: func() { signal.Reset() },
	}
}

// run carries out one command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return a.exit(command, err)
}

// stoppable returns a context that ends at SIGINT or SIGTERM, for a command that
// has something to finish first. A second signal ends the process as usual.
func (a *app) stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := a.notify()
	go func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if s != syscall.SIGHUP {
					if a.giveBack != nil {
						a.giveBack()
					}
					return
				}
			}
		}
	}()
	return ctx, cancel
}
