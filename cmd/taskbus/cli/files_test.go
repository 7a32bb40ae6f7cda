package cli

import (
	"testing"

	"taskbus/config"
)

// The default place of the history: one of its own for each broker.
func TestHistoryFile(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"systemd", map[string]string{"STATE_DIRECTORY": "/var/lib/taskbus:/var/lib/other", "HOME": "/root"},
			"/var/lib/taskbus/history.db"},
		{"XDG", map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/home/u",
			"RABBITMQ_URL": "amqp://u:secret@broker.example:5672/prod"}, "/s/taskbus/broker.example-5672-prod/history.db"},
		{"home", map[string]string{"HOME": "/home/u", "XDG_STATE_HOME": "relative"},
			"/home/u/.local/state/taskbus/localhost-5672/history.db"},
		{"a virtual host that goes elsewhere",
			map[string]string{"HOME": "/h", "RABBITMQ_URL": "amqp://u:p@[::1]/..%2F..%2Fetc"},
			"/h/.local/state/taskbus/1-..-2F..-2Fetc/history.db"},
		{"nowhere", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			getenv := func(name string) string { return c.env[name] }
			env, err := config.ReadEnvironment(getenv)
			if err != nil {
				t.Fatal(err)
			}
			if got := HistoryFile(getenv, env); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
