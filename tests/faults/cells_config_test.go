package faults

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"taskbus/coordinator/view"
)

// What happens to agents.yaml while the coordinator runs.

var configCells = []cell{
	{name: "agents.yaml broken, empty, half-written, then whole", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		version := c.status().Config.Version
		refused := 0
		r.during("files that cannot be used", func() {
			for name, content := range map[string]string{
				"broken":       r.with(quartet, "max_concurrent_tasks: 5", "max_concurrent_task: 5"),
				"empty":        "",
				"half-written": quartet[:len(quartet)/2] + "\n  a5: {capab",
			} {
				// In place, as careless tools do: it may be read half-way.
				if err := os.WriteFile(r.config, []byte(content), 0o600); err != nil {
					r.t.Fatal(err)
				}
				c.awaitStatus("S10: the file is refused: "+name, func(s view.Status) bool { return !s.Config.LastReloadOK })
				if s := c.status(); s.Config.Version != version || len(s.Agents) != 4 {
					r.t.Errorf("S10: %s: the configuration in force is %s with %d agents", name, s.Config.Version, len(s.Agents))
				}
				if v := c.metric("taskbus_config_last_reload_successful"); v != 0 {
					r.t.Errorf("S10: %s: taskbus_config_last_reload_successful is %v", name, v)
				}
				r.inFullSwing(20)
				refused++
				r.configure(quartet)
				c.awaitStatus("the repair is noticed", func(s view.Status) bool { return s.Config.LastReloadOK })
			}
		}, func() int { return refused })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "agents.yaml behind a symlink that is swapped", holds: withoutFault, play: func(r *rig) {
		// As Kubernetes does: the directory that the link names is replaced.
		link := func(name, content string) {
			dir := filepath.Join(r.dir, name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				r.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(content), 0o600); err != nil {
				r.t.Fatal(err)
			}
			next := filepath.Join(r.dir, "..next")
			if err := os.Symlink(name, next); err != nil {
				r.t.Fatal(err)
			}
			if err := os.Rename(next, filepath.Join(r.dir, "..data")); err != nil {
				r.t.Fatal(err)
			}
		}
		link("one", quartet)
		if err := os.Remove(r.config); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", "agents.yaml"), r.config); err != nil {
			r.t.Fatal(err)
		}
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		version := c.status().Config.Version
		swapped := 0
		r.during("the link swapped", func() {
			link("two", strings.Replace(quartet, "assignment_timeout_seconds: 60", "assignment_timeout_seconds: 59", 1))
			c.awaitStatus("the new file is in force", func(s view.Status) bool {
				return s.Config.Version != version &&
					s.Config.LastReloadOK
			})
			swapped++
			r.inFullSwing(20)
		}, func() int { return swapped })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "agents.yaml changed fifty times", holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		reloads := 0
		r.during("reloads", func() {
			for i := range 50 {
				strategy := []string{"least_loaded", "round_robin", "priority_based"}[i%3]
				r.configure(quartet + "assignment_strategies:\n  " + strategy +
					": {enabled: true, default: true}\n  capability_match: {enabled: true}\n")
				pause := 100 * time.Millisecond // a file is read when it has been still for 200 ms
				if i%5 == 4 {
					pause = 400 * time.Millisecond
				}
				r.pause(pause)
			}
			r.configure(quartet)
			c.awaitStatus("the last one is in force", func(s view.Status) bool {
				return s.Config.LastReloadOK && s.Config.Strategy == "capability_match"
			})
			reloads = strings.Count(c.log.String(), "new configuration in force")
		}, func() int { return reloads })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "the password in a file is replaced", holds: always, play: func(r *rig) {
		user := "rotated-" + r.broker.VHost
		mine := r.broker.AddUser(r.t, user)
		r.broker.SetPermissions(r.t, user, ".*", ".*", ".*")
		const next = "n3xt-canary"
		r.secret(passwordOf(mine.URL))
		r.secret(next)
		c := r.launch(start{url: mine.URL})
		c.awaitState("active")
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		r.during("the password replaced", func() {
			r.broker.Ctl(r.t, "change_password", user, next)
			r.broker.CloseConnections(r.t)
			r.refusedWith(c, "refused access")
			c.stop() // it has the old one in its environment, which cannot change
			c = r.launch(start{url: r.broker.As(r.t, user, next).URL})
			c.awaitState("active")
		}, func() int { return 1 })
		r.resumes()
		p.finish()
	}},
}
