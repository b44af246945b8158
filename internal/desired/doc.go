// Package desired translates the desired firmware of API objects into the terms of package plan, and says which jobs failed on the way to it.
package desired
