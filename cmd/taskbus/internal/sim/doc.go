// Package sim answers: what would another strategy do, on a simulated fleet or on recorded decisions?
//
// It is `taskbus simulate` and `replay`. It needs neither broker nor coordinator, and must never ask one.
package sim
