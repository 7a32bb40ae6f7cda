package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service"
	"taskbus/coordinator/view"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// Whatever the files hold, check says what is wrong with them or what they mean, and a coordinator that
// runs reads them again, decides by them or refuses them, and goes on.
func FuzzCheckAndReload(f *testing.F) {
	base, err := os.ReadFile("testdata/agents.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, pattern := range []string{"../../../../config/testdata/*.yaml", "../../../../config/quotas/testdata/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if strings.Contains(pattern, "quotas") {
				f.Add(base, data)
			} else {
				f.Add(data, []byte(nil))
			}
		}
	}
	for _, formula := range []string{"task_type.matches('a{2}') ? 1 : 0", "labels.a.matches('(a|b)*c') ? 1 : 0",
		"labels.a.matches(task_labels.b) ? 1 : 0", "1 / load", "dyn(task_type)"} {
		f.Add(
			[]byte("agents: {gpu-1: {max_concurrent_tasks: 1}}\nassignment_strategies: {expression: {default: true, formula: \""+
				formula+"\"}}"), []byte(nil))
	}
	dir := f.TempDir()
	files := cli.ConfigFiles{Agents: filepath.Join(dir, "agents.yaml"), Quotas: filepath.Join(dir, "quotas.yaml")}
	put := func(agents, quotas []byte) {
		if err := errors.Join(os.WriteFile(files.Agents, agents, 0o600),
			os.WriteFile(files.Quotas, quotas, 0o600)); err != nil {
			f.Fatal(err)
		}
		if quotas == nil {
			if err := os.Remove(files.Quotas); err != nil {
				f.Fatal(err)
			}
		}
	}
	quotas, err := os.ReadFile("../../../../examples/quotas.yaml")
	if err != nil {
		f.Fatal(err)
	}
	put(base, quotas)
	first, err := files.Load()
	if err != nil {
		f.Fatal(err)
	}
	broker := membus.New()
	s, err := service.New(service.Options{Config: first, ConfigPath: files.Agents, Bus: broker,
		Registry: prometheus.NewRegistry(), Logger: zerolog.Nop()})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		<-ended
	})
	outside, err := broker.Open(ctx, bus.SessionSpec{Name: "outside", OnSettled: func(uint64, bus.Outcome) {}})
	if err != nil {
		f.Fatal(err)
	}
	for !s.Ready(ctx).Ready {
		time.Sleep(time.Millisecond)
	}
	// Changes of quotas stand, whether what the files say has room for them or not.
	for _, c := range []view.QuotaEntry{
		{ID: "new", Entry: `{"weight":2,"limits":{"total_tokens":{"amount":10,"per":"day"}}}`},
		{Agent: true, ID: "n1", Entry: `{"group_id":"new"}`}} {
		if _, err := s.RegisterQuota(ctx, c); err != nil {
			f.Fatal(err)
		}
	}
	change := view.QuotaChange{Node: "pool/project_alpha", Values: []view.QuotaValue{{Key: "weight", Value: "5"}}}
	if _, err := s.ControlQuota(ctx, change); err != nil {
		f.Fatal(err)
	}
	number := 0 // of tasks
	say := func(queue, kind, body string) {
		p := bus.Publication{Token: 1, Key: queue, Body: []byte(body),
			Properties: bus.Properties{ContentType: "application/json", Type: kind}}
		if err := outside.Publish(p); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, agents, quotas []byte) {
		put(agents, quotas)
		for _, path := range withQuotas([]string{files.Agents}) {
			checked, err := checkFile(path)
			if err != nil {
				t.Fatalf("%s cannot be checked: %v", path, err)
			}
			if err := (&cli.App{Out: io.Discard, Now: time.Now}).Text(checked.print); err != nil {
				t.Errorf("%s cannot be shown: %v", path, err)
			}
			if checked.OK == (len(checked.Faults) > 0) {
				t.Errorf("%s: in order %v, with %d faults", path, checked.OK, len(checked.Faults))
			}
		}
		found := files
		found.Limited = false // quotas may be missing each time
		next, refused := found.Load()
		s.Reload(next, refused)
		if refused != nil && refused.Error() == "" {
			t.Error("refused without a word")
		}
		now := time.Now().Format(time.RFC3339Nano)
		say(bus.StreamStatus, schemas.AgentStatus,
			`{"message_type":"agent.status","agent_id":"gpu-1","status":"ready","current_load":0.1,"active_tasks":0,`+
				`"available_capacity":1,"timestamp":"`+now+`"}`)
		number++
		say(bus.QueueAssign, schemas.TaskAssign,
			fmt.Sprintf(`{"message_type":"task.assign","task_id":"t-%d","task_type":"build","payload":{},"labels":{"a":"b"}}`,
				number))
		if _, err := s.Status(ctx); err != nil { // the loop answers: it has decided by the new policy
			t.Fatal(err)
		}
	})
}
