package quota

import (
	"taskbus/cmd/taskbus/internal/clitest"
	"taskbus/cmd/taskbus/internal/fleet"
	"taskbus/cmd/taskbus/internal/task"
)

// newRig is a rig for the commands of this package, and those that its tests use besides.
func newRig() *clitest.Rig {
	return clitest.New(clitest.Root(Command, fleet.AgentsCommand, task.ListCommand))
}
