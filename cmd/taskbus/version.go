package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
)

// version is set by the release build: -ldflags "-X main.version=v1.2.3".
var version string

// build is what this binary knows of its making.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Revision: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Long: `Prints the version, the source revision and the Go release it was built with.
A running coordinator says the same in /status and in the metric
taskbus_build_info.`,
		Example: `  taskbus version
  taskbus version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.Show(b, func(p *cli.Page) {
				p.Line("taskbus %s (revision %s, %s, %s)", b.Version, b.Revision, b.Go, b.Platform)
			})
		},
	}
}
