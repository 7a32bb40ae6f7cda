// Package views answers: what does the state of the engine mean for people?
//
// Its functions turn a snapshot, a decision or a place into what package view shows, and judge the fleet: its health,
// its bottlenecks, what would help the tasks that wait. They are the same for a leader, a standby and a scrape. It must
// never ask the engine, the broker or a clock.
package views
