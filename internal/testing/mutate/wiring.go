package mutate

// wirings are defects between a flag, a field of a spec or a default and what it is about.
func wirings() []Mutant {
	operator := func(what, file, test, before, after string) Mutant {
		return Mutant{What: what, File: file, Old: before, New: after, Packages: []string{"cmd/firmware-operator"}, Run: "^" + test + "$"}
	}
	daemon := func(what, file, test, before, after string) Mutant {
		return Mutant{What: what, File: file, Old: before, New: after, Run: "^" + test + "$"}
	}
	image := func(m Mutant, in string) Mutant {
		m.Packages = []string{in}
		return m
	}
	const (
		flags, wire, manager = "cmd/firmware-operator/main.go", "internal/controller/controller.go", "internal/operator/run.go"
		own, node            = "cmd/firmware-daemon/run.go", "internal/node/daemon/"
	)
	return []Mutant{
		operator("jobs are queued at once by default", flags, "TestFlags", `"quiet-period", planner.DefaultQuietPeriod,`, `"quiet-period", 0*planner.DefaultQuietPeriod,`),
		operator("several replicas work at once by default", flags, "TestFlags", `"leader-elect", true`, `"leader-elect", false`),
		operator("a drain stops at a pod that no controller replaces by default", flags, "TestFlags", `"drain-force", true`, `"drain-force", false`),
		operator("the operator drains by default", flags, "TestFlags", `"maintenance", config.MaintenanceOperator`, `"maintenance", config.MaintenanceDrain`),
		operator("networks that are refused are allowed", flags, "TestFlags", `"refuse-source-networks": &c.RefusedSources`, `"refuse-source-networks": &c.PrivateSources`),
		daemon("a number is taken for a name", "pkg/artifact/host.go", "TestStrictHosts", "case numeric.MatchString(labels[len(labels)-1]):", "case false:"),
		daemon("a proxy reads the host of a redirect", "pkg/artifact/address.go", "TestProxyGetsNoNumber", "hostOf(req.URL)\n\t\tif err != nil {", "hostOf(req.URL)\n\t\tif err != nil && req.Response == nil {"),
		daemon("a proxy is asked for a name that nobody knows", "pkg/artifact/host.go", "TestUnknownNameNotProxied", "if err != nil && !a.isAllowed(name) {", "if err != nil && a.lookup == nil {"),
		daemon("a proxy is asked for a name of an internal address", "pkg/artifact/host.go", "TestUnknownNameNotProxied", "for _, ip := range resolved {", "for _, ip := range resolved[:0] {"),
		image(daemon("a page is an image", "pkg/imageinfo/kind.go", "TestLiesOfImagesAreRefused", "return k == \"\"", "return true"), "pkg/artifact"),
		image(daemon("the blocks of a cabinet are unpacked as often as it says", "pkg/unpack/cabinet.go", "TestCabinetIsReadQuickly", "*c.unread < 0 {", "*c.unread < 0 && false {"), "pkg/imageinfo"),
		image(daemon("who signs the same image pushes others out", "pkg/artifact/statement.go", "TestForeignClaimsPushNothing", "return !present[signed{o.File, o.Keys}]", "return len(present) > 0"), "internal/controller/source"),
		image(daemon("a certificate that expired counts", "pkg/signature/verify.go", "TestExpiredKeyEndsOffers", "errors.As(err, &refused) && refused.untimely {", "errors.As(err, &refused) && refused.untimely && false {"), "internal/controller/source"),
		daemon("a new signature is not looked at", "internal/controller/source/controller.go", "TestASignatureThatDoesNotHoldIsLoud", "\tcase err != nil:\n\t\treturn ctrl.Result{RequeueAfter: lookAgain}, nil", "\tcase err != nil:\n\t\treturn ctrl.Result{}, nil"),
		image(daemon("a file is fetched for a new signature that does not hold", "pkg/artifact/metadata.go", "TestSignedAnew", "return verifyFile(f, s.blob(digest), r.Signature, s.now(), advice)", "return nil"), "internal/controller/source"),
		daemon("the history of a cabinet counts", "pkg/imageinfo/imageinfo.go", "TestFirstReleaseCounts", "c.Releases.Release[0].Version", "c.Releases.Release[len(c.Releases.Release)-1].Version"),
		daemon("the archive of another machine is changed", "internal/cli/archive.go", "TestForeignArchive", "version.Current(), Machine: this}", "version.Current()}"),
		daemon("what a job judged last does not count", "internal/quarantine/set.go", "TestLastEvidenceCounts", "isSure(r.evidence) || r.ended {", "isSure(r.evidence) {"),
		daemon("an old record has no classes", "internal/node/engine/engine.go", "TestClassesOfOldRecords", "cmp.Or(r.Class, u.Class)", "r.Class"),
		daemon("a requirement that is not known is passed over", "internal/node/job/decide.go", "TestRefusesWhatItDoesNotKnow", `for _, r := range t.Require {`, `for _, r := range t.Require[:0] {`),
		daemon("nobody is asked whether a job is wanted", "internal/node/job/decide.go", "TestUnwantedJobIsRejected", `f.wishes.unwanted(d); why != ""`, `f.wishes.unwanted(d); why == "?"`),
		daemon("an older image passes for a version", "internal/node/job/wish.go", "TestOnlyWhatAPersonWantsIsFlashed", `digest != "" && has(f, i, digest)`, `digest != ""`),
		daemon("a member of an archive has any digest", "internal/node/job/wish.go", "TestMembersAreToldByTheirDigest", `return i.Digest == "" || i.Digest == digest`, "return true"),
		daemon("the operator alone names what is gone back to", "internal/node/job/accept.go", "TestRollbackImageIsSomebodys", "if !f.wishes.goesBack(u, d,", "if u.Name == \"?\" && !f.wishes.goesBack(u, d,"),
		image(daemon("the operator permits a downgrade", "internal/match/decision.go", "TestOnlyWhatAPersonWantsIsFlashed", "a.Policy == b.Policy && a.Downgrade == b.Downgrade", "a.Policy == b.Policy"), "internal/node/job"),
		daemon("a template for other nodes counts", "internal/node/job/wish.go", "TestOnlyWhatAPersonWantsIsFlashed", "return t.ChoosesLabels(w.labels) && ", "return "),
		daemon("settings that nobody declares are written", "internal/node/job/decide.go", "TestOnlyWhatAPersonWantsIsSet", `f.wishes.unconfigured(d); why != ""`, `f.wishes.unconfigured(d); why == "?"`),
		daemon("every device is asked for its parameters", "internal/node/discovery/settings.go", "TestAsksForParametersWhereSettingsAreDesired", "if device.Err != nil || want == nil && len(drifted[device.UniqueID]) == 0 {", "if want = cmp.Or(want, new(v1alpha1.DesiredConfiguration)); device.Err != nil {"),
		daemon("pins of another machine count", "internal/node/job/wish.go", "TestOnlyWhatAPersonWantsIsFlashed", `OtherMachine(&w.node) != "" {`, `OtherMachine(&w.node) == "?" {`),
		daemon("a template beats a pin", "internal/node/job/wish.go", "TestOnlyWhatAPersonWantsIsFlashed", "len(pins) > 0 {", "len(pins) > 99 {"),
		operator("there are no metrics by default", flags, "TestFlags", `"metrics-bind-address", ":8443"`, `"metrics-bind-address", "0"`),
		operator("the planner has no limit of its queue", wire, "TestShipped", ", c.QuietPeriod).Within(queues)", ", c.QuietPeriod)"),
		operator("the planner has no quiet period", wire, "TestShipped", "time.Now, c.QuietPeriod).Within", "time.Now, 0).Within"),
		operator("nobody counts who waits for room in a queue", wire, "TestShipped", ".Draining(c.Maintenance).Within(queues)", ".Draining(c.Maintenance)"),
		operator("no catalog is looked at", wire, "TestShipped", "\t\t\treturn catalog.Setup", "\t\t\tif true {\n\t\t\t\treturn nil\n\t\t\t}\n\t\t\treturn catalog.Setup"),
		operator("no Node gets its object", wire, "TestShipped", "return node.SetupWithManager(mgr, c.Namespace, node.Retention)", "_ = node.Retention; return nil"),
		operator("a deleted job stays", wire, "TestShipped", "protection.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, c.Namespace).SetupWithManager",
			"func(manager.Manager) error { _ = protection.New; return nil }"),
		operator("no source is fetched", wire, "TestShipped", "sources.SetupWithManager", "func(manager.Manager) error { _ = sources; return nil }"),
		operator("a leader is never elected", manager, "TestShipped", "LeaderElection:          c.LeaderElect,", "LeaderElection:          false,"),
		operator("nothing answers probes", manager, "TestShipped", "HealthProbeBindAddress:        c.ProbeAddress,", `HealthProbeBindAddress:        "0",`),
		operator("an image is stored under another name", "pkg/artifact/store.go", "TestShipped", `strings.TrimPrefix(d.String(), "sha256:")`, `strings.Trim(d.String(), "sha256:")+".bin"`),

		daemon("scans are ten times as rare by default", own, "TestFlags", `"scan-interval", 5*time.Minute`, `"scan-interval", 50*time.Minute`),
		daemon("a machine has three minutes to boot by default", own, "TestFlags", `"boot-time-limit", 30*time.Minute`, `"boot-time-limit", 3*time.Minute`),
		daemon("every image must be signed by default", own, "TestFlags", "config.ImagesSignedIfKeys", "config.ImagesSigned"),
		daemon("anybody may read the metrics by default", own, "TestFlags", `"metrics-bind-address", "0"`, `"metrics-bind-address", ":9090"`),
		daemon("the daemon looks at its own container", own, "TestFlags", `machineFlags(c, &d.Machine, "/host")`, `machineFlags(c, &d.Machine, "/")`),
		daemon("plugins do not come and go", own, "TestOptions", "if plugins != nil {", "if plugins == nil {"),
		daemon("a changed threshold of scans changes nothing", node+"base.go", "TestSpecReachesTheScans", "func(_, obj any) { follow(d, obj); ", "func(_, obj any) { "),
		daemon("the threshold of scans is overlooked at the start", node+"base.go", "TestSpecReachesTheScans", "AddFunc:    func(obj any) { follow(d, obj); ", "AddFunc:    func(obj any) { "),
		daemon("scans are ten times as rare as the flag says", node+"base.go", "TestSettingsReachTheParts", "Interval: o.Config.ScanInterval", "Interval: 10 * o.Config.ScanInterval"),
		daemon("the limits of boot and health are exchanged", node+"machine.go", "TestSettingsReachTheParts", "= c.BootTimeLimit, c.HealthTimeout", "= c.HealthTimeout, c.BootTimeLimit"),
		daemon("a job may wait for ever before its first write", node+"executor.go", "TestSettingsReachTheParts", "Catalog: base.catalog, StartTimeout: c.StartTimeout,", "Catalog: base.catalog,"),
		daemon("checks have no timeout of their own", node+"executor.go", "TestSettingsReachTheParts", "Timeout: c.CheckTimeout, ", ""),
		daemon("priorities of steps change nothing", node+"machine.go", "TestSettingsReachTheParts", "c.StepPriorities.Parse()", "c.StepPriorities[:0].Parse()"),
		daemon("the operator drains where nobody should", node+"machine.go", "TestSettingsReachTheParts", "c.Maintenance == config.MaintenanceDrain", "c.Maintenance != config.MaintenanceOperator"),
		daemon("an interrupted job waits for the API server", node+"executor.go", "TestWithoutAnAPIServer",
			"return e.engine.Run(ctx)", "e.manager.GetCache().WaitForCacheSync(ctx); return e.engine.Run(ctx)"),
		daemon("a restore leaves an unhealthy device behind", "internal/node/job/restore.go", "TestRestoreLeavesNothingBehind", "if !listed && (mark", "if listed && (mark"),
		daemon("a restore ends the hold of a step of the host", "internal/node/job/restore.go", "TestRestoreEndsNoOtherHold", "len(j.Requested) == 0 && touched", "touched"),
		daemon("a restore takes the archived image of another version", "internal/node/job/restore.go", "TestRestorePicksTheEntry", "case u.Version != \"\" && ", "case u.Version == \"\" && "),
		image(daemon("a restored image is pruned by its own job", "internal/node/archive/prune.go", "TestRestoredImageIsNotPrunedByItsOwnJob", " || e.Name == just.Spares", ""), "internal/node/engine"),
		daemon("what was restored is flashed over again", "internal/node/engine/remember.go", "TestRestoreGoesBackOnce", "if u.Desired != nil {", "if u.Desired != nil && u.Archived == \"\" {"),
		image(daemon("a version whose image comes later is flashed over what was restored", "internal/node/job/restore.go", "TestRestoreKeepsWhatWouldBeFlashedNextAway",
			"case next.Reason == plan.ReasonImageNotFound:", "case next.Reason == plan.ReasonNotUpdatable:"), "internal/node/job"),
		image(daemon("what a person restored counts as failed", "internal/match/tally.go", "TestTellsFailedFromCleared", "\t\tm |= restored\n", "\t\tm |= failed\n"), "internal/match"),
		daemon("nobody is told of a passphrase that the reboot will ask for", "internal/node/engine/locks.go", "TestADiskThatTheTPMAloneOpensIsSeenBeforeTheWrite", "ret.Message = why", "_ = ret"),
		daemon("an update that was planned before a restore accuses its image", "internal/node/engine/preflight.go", "TestRestoreGoesBackOnce$",
			`last.Reason == string(plan.ReasonRestored) && (`, `last.Reason == "" && (`),
		image(daemon("a backup waits for an admission", "api/v1alpha1/firmwarejob_types.go", "TestBackupAndRestoreOfAHeldNode", "j.Admitted() || j.Spec.Task.Type == JobTypeBackup", "j.Admitted()"), "internal/node/job"),
		daemon("a job whose journal is lost holds no node", "internal/node/job/gather.go", "TestLostStateHolds", "return true, nil\n\t}\n\treturn false, nil", "return false, nil\n\t}\n\treturn false, nil"),
		daemon("a node that is on its way back is held for a lost journal", "internal/node/job/gather.go", "TestRestoredAPIHoldsNobody",
			"case step.MaintenanceRequested, step.Maint", "case step.MaintenanceRequested, step.MaintenanceEnding, step.Maint"),
		daemon("what a lost job blamed is forgotten", "internal/node/job/decide.go", "TestLostHoldStays", "range f.object.Status.Blamed {", "range f.object.Status.Blamed[:0] {"),
		daemon("a job begins with its journal in memory", "internal/node/engine/preflight.go", "TestVolatileRefusesJobs", `x.cfg.Volatile != "" &&`, `x.cfg.Volatile == "\n" &&`),
		daemon("the serial number of a chassis tells its machines apart", "internal/node/state/machine.go", "TestWhoseStateItIs",
			"return m.UUID != of.UUID", "return m.UUID != of.UUID && m.Serial != of.Serial"),
		daemon("the state of another machine is taken over", "internal/node/state/state.go", "TestForeignStateIsSetAside",
			"o.Machine.isOther(s.Before.Machine)", "false"),
		daemon("a guard works on the state of another machine", "internal/node/state/claim.go", "TestForeignStateIsSetAside", "err == nil && stamp != nil &&", "err != nil && stamp != nil &&"),
		daemon("a gateway of another family is not watched", "internal/node/uplink/uplink.go", "TestNextHopOfOtherFamily", "r.Gw != nil || r.Via != nil", "r.Gw != nil"),
		{What: "a gateway behind Open vSwitch is not watched", File: "pkg/sysfs/net.go", Packages: []string{"internal/node/uplink"}, Run: "^TestGatewayBehindOVS$",
			Old: "case madeUp(entries) && queue[0]", New: "case !madeUp(entries) && queue[0]"},
		daemon("a gateway that nobody talks to is not watched", "internal/node/health/checker.go", "TestIdleGatewayIsRecorded", "_, _ = c.Network.Neighbours(ctx)", "_ = c.Network"),
		daemon("that no gateway is watched is not said", "internal/status/job.go", "TestUnwatchedIsSaid", `if f.Unwatched != "" {`, `if f.Unwatched == "\n" {`),
		daemon("two members of etcd are away at once", "internal/schedule/topology.go", "TestEtcdNodesCount", `"node-role.kubernetes.io/etcd", `, ""),
		daemon("the archive is never pruned", node+"run.go", "TestWithoutAnAPIServer", "pruneArchive(ctx, e.log, e.discovery, e.archive); ", ""),
	}
}
