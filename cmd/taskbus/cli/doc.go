// Package cli answers: what do all commands share?
//
// It has what they need of the world outside, the client of a coordinator's HTTP interface, flags, exit codes, the
// page on which every command prints ([Page]), and how times and amounts look. It must never know a command, and
// never print the broker's password: only [BrokerAddress] makes a text of the broker's URL.
package cli
