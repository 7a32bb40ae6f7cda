package journal

import (
	"taskbus/tests/support/clitest"
)

// newRig is a rig for the commands of this package, and those that its tests use besides.
func newRig() *clitest.Rig { return clitest.New(clitest.Root(Command)) }
