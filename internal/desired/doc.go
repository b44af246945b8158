// Package desired puts the firmware the API objects ask for into the terms of package plan.
package desired
