package command_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

func TestProbesProtectionOfWrites(t *testing.T) {
	m := newMachine(t)
	host, protect := m.onHost(t)
	r := m.runner(t, m.withWorker, protect)
	require.NoError(t, r.Protects(t.Context()))
	scopes, err := host.Scopes()
	require.NoError(t, err)
	require.Len(t, scopes, 1, "as a write is")
	assert.Empty(t, scopes[0].Live, "the worker ended without an order")
	running, err := command.WritesRunning(m.state)
	require.NoError(t, err)
	assert.False(t, running)

	refused := errors.New("there is no systemd here")
	for name, c := range map[string]struct {
		change func(*command.Config)
		says   string
	}{
		"a host that refuses": {func(c *command.Config) {
			c.Scope = scoper(func(context.Context, int, string) error { return refused })
		}, refused.Error()},
		"no host is configured":      {func(c *command.Config) { c.Scope = nil }, "nothing is configured"},
		"no worker is configured":    {func(c *command.Config) { c.Worker = nil }, "no worker"},
		"a worker that is not there": {func(c *command.Config) { c.Worker = []string{"/nonexistent/worker"} }, "start worker"},
	} {
		assert.ErrorContains(t, m.runner(t, m.withWorker, c.change).Protects(t.Context()), c.says, name)
	}
}

func TestAWriteThatHasToBeProtectedDoesNotBeginUnprotected(t *testing.T) {
	for name, change := range map[string]func(*command.Config){
		"a host that refuses": func(c *command.Config) {
			c.Scope = scoper(func(context.Context, int, string) error { return errors.New("there is no systemd here") })
		},
		"no host is configured":   func(c *command.Config) { c.Scope = nil },
		"no worker is configured": func(c *command.Config) { c.Worker = nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			r := m.runner(t, m.withWorker, change)
			c := command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"}
			_, err := r.Run(command.RequireProtection(t.Context()), c)
			require.ErrorIs(t, err, command.ErrUnprotected)
			assert.NoFileExists(t, m.file("f.started"), "the tool was not started")
			running, err := r.WriteRunning("card")
			require.NoError(t, err)
			assert.False(t, running)

			publish(m.file("f.go"), "")
			_, err = r.Run(t.Context(), c)
			require.NoError(t, err, "nobody requires it here")
			assert.FileExists(t, m.file("f.started"))
		})
	}
}

func TestAWriteThatHasToBeProtectedAndIsBegins(t *testing.T) {
	m := newMachine(t)
	publish(m.file("f.go"), "")
	_, err := m.runner(t, m.withWorker).Run(command.RequireProtection(t.Context()),
		command.Command{Argv: []string{"flash", m.file("f")}, Kind: command.Write, Lock: "card"})
	require.NoError(t, err)
	assert.FileExists(t, m.file("f.started"))
}
