package main

import (
	"taskbus/cmd/taskbus/internal/clitest"
)

// newRig is a rig for all commands.
func newRig() *clitest.Rig { return clitest.New(rootCommand) }
