// Package demo plays the main job through, end to end and on a real broker: a
// coordinator process, a handful of agents, and tasks of which some must fail.
//
// It answers "does it work here, and what does it look like?" It uses Taskbus as
// any user would, from outside: tasks are published to task.assign, agents
// consume their own queues, outcomes are read from taskbus.events and from the
// coordinator's HTTP interface. It must never reach into the coordinator, and
// must account for every task it has submitted.
package demo
