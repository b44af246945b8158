package mutate

// versions are defects in how objects are stored anew in another version of the API. Their tests need an API server.
func versions() []Mutant {
	stored := func(what, file, before, after, test string) Mutant {
		return Mutant{What: what, File: "internal/controller/storedversion/" + file + ".go", Old: before, New: after, Run: "^" + test + "$"}
	}
	return []Mutant{
		stored("a migration that failed is taken for done", "decide", "	case failed:\n", "	case failed:\n		return tidy\n", "TestDecide"),
		stored("a migration that nobody executes is waited for", "decide", "waited < beginsWithin", "waited < 100*endsWithin", "TestDecide"),
		stored("a definition says that all is stored anew while objects were refused", "store", "	case len(p.refused) > 0:", "	case len(p.refused) > 9:", "TestARefusedObjectIsNamedAndTriedAgain"),
		stored("the first page is taken for all", "store", `p.listed = list.Continue, list.Continue == ""`, `p.listed = list.Continue, list.Continue != "x"`, "TestStoresEveryObjectAnew"),
		stored("what was stored before a definition changed again counts", "controller", " || p.generation != d.Generation", "", "TestADefinitionThatChangesBeginsAnew"),
		stored("an object that another writes stops the others", "store", "err == nil && o.ResourceVersion != resourceVersion, err", "false, err", "TestOthersWriteMeanwhile"),
		stored("a denial that looks like a deletion is taken for one", "store", "err == nil && o.ResourceVersion != resourceVersion, err", "true, nil", "TestADenialIsNotAWrite"),
		stored("an expired token has a pass begin anew", "store", "return is.Status().Continue", `return ""`, "TestAnExpiredTokenGoesOn"),
		stored("objects are hidden where nothing can be done", "controller", "		r.progress.begin(name)\n		return f, fmt", "		return f, fmt", "TestWhatCannotBeDoneIsReported"),
		stored("a migration that is not accepted is asked for again and again", "decide", "f.migration == notServed || f.pass.alone", "f.migration == notServed", "TestAMigrationIsNotAccepted"),
		{What: "the operator has the API server migrate whatever there is", File: "deploy/policy/operator-objects.yaml", Packages: []string{"deploy"},
			Old: "object.?spec.?resource.?group == optional.of('nodefirmware.io')", New: "object.?spec.?resource.?group != optional.of('x')",
			Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^operator_have_the_API"},
		{What: "the operator writes whatever it likes into the status of a definition", File: "deploy/policy/operator-objects.yaml", Packages: []string{"deploy"},
			Old: "'nodedevices', 'customresourcedefinitions'])", New: "'nodedevices'])",
			Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^operator_say_that_a_definition"},
		{What: "the operator has definitions deleted through their status", File: "deploy/policy/operator-objects.yaml", Packages: []string{"deploy"},
			Old: "request.operation != 'UPDATE' || object.metadata.?ownerReferences ==", New: "request.operation != 'UPDATE' || request.subResource == 'status' || object.metadata.?ownerReferences ==",
			Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^operator_have_a_definition"},
	}
}
