package setup

import (
	"taskbus/cmd/taskbus/internal/fleet"
	"taskbus/tests/support/clitest"
)

// newRig is a rig for the commands of this package, and those that its tests use besides.
func newRig() *clitest.Rig {
	return clitest.New(clitest.Root(CheckCommand, DoctorCommand, TopologyCommand, fleet.StatusCommand,
		fleet.HealthCommand))
}
