// Package desired translates the desired firmware of API objects into the terms of package plan.
package desired
