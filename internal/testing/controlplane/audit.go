package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
)

// AuditPath is the file of the audit events of the writes of Options.AuditUsers, one JSON object in a line, in the order in which
// they were answered.
func (c *ControlPlane) AuditPath() string { return c.directory.sub("logs/audit.log") }

// audit makes the API server record the writes of the users, without the bodies.
func (c *ControlPlane) audit(users []string) error {
	if len(users) == 0 {
		return nil
	}
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []map[string]any{
			{"level": "Metadata", "users": users, "verbs": []string{"create", "update", "patch", "delete", "deletecollection"}},
			{"level": "None"},
		},
	})
	if err != nil {
		return fmt.Errorf("encode audit policy: %w", err)
	}
	path := c.directory.sub("audit-policy.json")
	if err := os.WriteFile(path, policy, 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	c.environment.ControlPlane.APIServer.Configure().
		Set("audit-policy-file", path).
		Set("audit-log-path", c.AuditPath()).
		Set("audit-log-mode", "blocking").
		Set("audit-log-maxsize", "1000000") // MB: never rotated
	return nil
}
