// Package desired translates the firmware that API objects ask for into the terms of package plan.
package desired
