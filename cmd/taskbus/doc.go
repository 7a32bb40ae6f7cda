// Command taskbus answers one question: how do people and machines start, feed
// and look at a coordinator?
//
// It is thin: flags, variables and signals in, service.Run out, and one file for
// each command. The commands that only look (agents, capabilities, tasks, explain,
// whatif, health) ask a running coordinator over HTTP; those that write (submit, topology apply) go
// to RabbitMQ directly, as any producer would, and work without a coordinator.
//
// It must never decide anything about a task or an agent, and never print the
// broker's password: only [brokerAddress] makes a text of the broker's URL.
package main
