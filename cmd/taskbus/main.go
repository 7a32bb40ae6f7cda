package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// heartbeat is that of AMQP where RABBITMQ_URL says nothing: a leader that is stopped or cut off keeps its
// lock for two to three of them. RabbitMQ's manual finds less than 5 s prone to false alarms.
const heartbeat = 5 * time.Second

func main() {
	a := newMainApp()
	os.Exit(a.Run(context.Background(), rootCommand(a), os.Args[1:]))
}

// newMainApp is the app of the real world.
func newMainApp() *cli.App {
	return &cli.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:  os.Getenv,
		Now:     time.Now,
		Version: thisBuild().Version,
		OpenBus: func(url string, logger zerolog.Logger) bus.Bus {
			return amqpbus.New(amqpbus.Config{URL: url, Logger: logger, Heartbeat: heartbeat})
		},
		Notify: func() <-chan os.Signal {
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			return signals
		},
		GiveBack: func() { signal.Reset() },
	}
}
