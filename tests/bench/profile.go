package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"taskbus/coordinator/bus"
)

// profileLength is how much of the full load is looked at.
const profileLength = 10 * time.Second

// profile has the service work off a backlog that outlasts the profile, and saves
// cpu.pprof and heap.pprof, to be read with `go tool pprof bin/taskbus FILE`.
func (b *bench) profile(ctx context.Context) (err error) {
	if err := os.MkdirAll(b.options.profile, 0o755); err != nil {
		return fmt.Errorf("make a directory for the profiles: %w", err)
	}
	if err := b.broker.clean(); err != nil {
		return err
	}
	_, c := contenders()
	s, err := c.start(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if b.options.agents {
		if _, err := s.with(ctx, b, "light", bus.StreamResult, strconv.Itoa(b.options.tasks)); err != nil {
			return err
		}
	}
	if _, err := b.prepareBacklog(s, c, b.options.tasks); err != nil {
		return err
	}
	if err := s.thaw(); err != nil {
		return err
	}
	saved := make(chan error, 1)
	go func() {
		saved <- errors.Join(
			s.save(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileLength/time.Second), filepath.Join(b.options.profile, "cpu.pprof")),
			s.save(ctx, "/debug/pprof/heap", filepath.Join(b.options.profile, "heap.pprof")))
	}()
	if err := <-saved; err != nil {
		return err
	}
	left, err := b.broker.ready(c.input)
	if err != nil {
		return err
	}
	b.say("profiles are in %s; %d of %d tasks were left when the profile ended (none would mean: use more --tasks)",
		b.options.profile, left, b.options.tasks)
	return nil
}

// save writes what the service answers to a file.
func (s *subject) save(ctx context.Context, path, file string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+path, nil)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, answer.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("save the profile: %w", err)
	}
	_, err = io.Copy(out, answer.Body)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("save the profile: %w", err)
	}
	return nil
}
