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
		operator("there are no metrics by default", flags, "TestFlags", `"metrics-bind-address", ":8443"`, `"metrics-bind-address", "0"`),
		operator("the planner has no limit of its queue", wire, "TestShipped", ", c.QuietPeriod).Within(queues)", ", c.QuietPeriod)"),
		operator("the planner has no quiet period", wire, "TestShipped", "time.Now, c.QuietPeriod).Within", "time.Now, 0).Within"),
		operator("nobody counts who waits for room in a queue", wire, "TestShipped", ".SharingIn(c.Namespace).Within(queues)", ".SharingIn(c.Namespace)"),
		operator("no catalog is looked at", wire, "TestShipped", "\t\t\treturn catalog.Setup", "\t\t\tif true {\n\t\t\t\treturn nil\n\t\t\t}\n\t\t\treturn catalog.Setup"),
		operator("no Node gets its object", wire, "TestShipped", "return node.SetupWithManager(mgr, c.Namespace, node.Retention)", "_ = node.Retention; return nil"),
		operator("a deleted job stays", wire, "TestShipped", "protection.New(mgr.GetClient(), mgr.GetAPIReader()).SetupWithManager",
			"func(manager.Manager) error { protection.New(nil, nil); return nil }"),
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
		daemon("the operator drains where nobody should", node+"machine.go", "TestSettingsReachTheParts", "c.Maintenance == config.MaintenanceDrain", "c.Maintenance != config.MaintenanceOperator"),
		daemon("an interrupted job waits for the API server", node+"executor.go", "TestWithoutAnAPIServer",
			"return e.engine.Run(ctx)", "e.manager.GetCache().WaitForCacheSync(ctx); return e.engine.Run(ctx)"),
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
