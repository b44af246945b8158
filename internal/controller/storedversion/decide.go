package storedversion

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	// looksAgain is how often the progress of the API server's own migration is checked.
	looksAgain = 10 * time.Second
	// beginsWithin and endsWithin bound how long that migration is waited for: it may be served where no controller executes it.
	beginsWithin, endsWithin = 5 * time.Minute, time.Hour
	// triesAgain is the wait before objects are tried again that the API server refused to store.
	triesAgain = 5 * time.Minute
)

// stage is the progress of the API server's own migration of a definition.
type stage string

const (
	notServed stage = "NotServed" // the API server has no such thing
	absent    stage = "Absent"
	waiting   stage = "Waiting"
	running   stage = "Running"
	succeeded stage = "Succeeded"
	failed    stage = "Failed"
)

// facts is what was read about one definition.
type facts struct {
	// name is that of the definition.
	name string
	// definition is nil when there is none, or none for long: it is being deleted.
	definition *apiextensionsv1.CustomResourceDefinition
	// asRead is the definition before this pass changes its status.
	asRead    *apiextensionsv1.CustomResourceDefinition
	migration stage
	pass      *pass
	now       time.Time
	// settles is that of the options.
	settles time.Duration
}

// storage is the version in which the API server stores objects now.
func (f facts) storage() string {
	for _, v := range f.definition.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return "" // the API server accepts no such definition
}

// served is the version in which objects are read and written: the one in which they are stored, or another where that one is not served.
func (f facts) served() string {
	version := f.storage()
	for _, v := range f.definition.Spec.Versions {
		if v.Served && v.Storage {
			return v.Name
		}
		if v.Served {
			version = v.Name
		}
	}
	return version
}

// isOutdated reports whether an object may be stored in another version.
func (f facts) isOutdated() bool {
	return !slices.Equal(f.definition.Status.StoredVersions, []string{f.storage()})
}

// action is the next step.
type action string

const (
	idle   action = "Idle"   // nothing is to be done
	drop   action = "Drop"   // there is no definition
	settle action = "Settle" // every API server of the cluster has to learn of the definition
	ask    action = "Ask"    // have the API server do it
	await  action = "Await"  // it does
	store  action = "Store"  // do it
	tidy   action = "Tidy"   // it was done
)

// decide returns the next step. Where the API server's migration failed, the definition does not say so: Kubernetes 1.36 and 1.37 take the
// earlier versions from its status all the same. That the migration is there and failed is then all that tells.
func decide(f facts) action {
	if f.definition == nil {
		return drop
	}
	switch waited := f.now.Sub(f.pass.since); f.migration {
	case notServed, absent:
		switch {
		case !f.isOutdated():
			return idle
		case f.migration == notServed || f.pass.alone:
			return store
		case waited < f.settles:
			return settle
		default:
			return ask
		}
	case waiting:
		if waited < beginsWithin {
			return await
		}
	case running:
		if waited < endsWithin {
			return await
		}
	case succeeded:
		if !f.isOutdated() {
			return tidy
		}
	case failed:
	}
	return store
}
