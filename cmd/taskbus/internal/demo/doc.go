// Package demo plays the main job through on a real broker.
//
// A coordinator process and a handful of agents have tasks of which some must fail.
//
// It answers "does it work here, and what does it look like?" It uses Taskbus as
// any user would, from outside: tasks are published to task.assign, agents
// consume their own queues, outcomes are read from taskbus.events and from the
// coordinator's HTTP interface. It must never reach into the coordinator, and
// must account for every task it has submitted.
package demo
