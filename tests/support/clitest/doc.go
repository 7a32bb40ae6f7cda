// Package clitest answers: what does a command do in a world in memory?
//
// It is for tests only, and must never be imported by anything else.
package clitest
