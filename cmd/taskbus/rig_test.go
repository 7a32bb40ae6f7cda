package main

import (
	"taskbus/tests/support/clitest"
)

// newRig is a rig for all commands.
func newRig() *clitest.Rig { return clitest.New(rootCommand) }
