// Command taskbus answers one question: how is a coordinator started, fed and looked at?
//
// It is thin: `taskbus serve` stands here, flags, variables and signals in, service.Run out; the other commands have
// rooms below internal, by what they are about. Those that only look ask a running coordinator over HTTP; those that
// write (submit, topology apply) go to RabbitMQ directly, as any producer would, and work without a coordinator.
//
// It must never decide anything about a task or an agent.
package main
