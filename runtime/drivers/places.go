package drivers

// Hooks are what a driver implements.
type Hooks struct {
	Recovers, Stores, Runs bool
}

// A Place is a driver's in the list.
type Place struct {
	Name string
	Hooks
	// Optional means that a node may lack the driver: by its configuration, or because nothing real runs on it.
	Optional bool
	// Facts are the kinds of the facts that it records, by their names in the contract.
	Facts []string
}

// What each driver does with the state at a start and with records.
var (
	recoversStores     = Hooks{Recovers: true, Stores: true}
	recoversStoresRuns = Hooks{Recovers: true, Stores: true, Runs: true}
	recoversRuns       = Hooks{Recovers: true, Runs: true}
	stores             = Hooks{Stores: true}
	storesRuns         = Hooks{Stores: true, Runs: true}
	runs               = Hooks{Runs: true}
)

// Places are all drivers, in the order that they take their state and see each record. Timers and calls come first:
// other drivers observe what these two do.
var Places = []Place{
	{Name: "timers", Hooks: recoversStores, Facts: []string{"TimerFired"}},
	{Name: "calls", Hooks: recoversStores, Facts: []string{"CallFinished", "PullProgressed"}},
	{Name: "runtime health", Hooks: recoversRuns, Facts: []string{"RuntimeHealthChanged"}},
	{Name: "probes", Hooks: recoversStoresRuns, Facts: []string{"ProbeResult"}},
	{Name: "readiness gates", Hooks: recoversStoresRuns, Facts: []string{"ReadinessGatesRead"}},
	{Name: "ephemeral storage", Hooks: recoversStoresRuns, Facts: []string{"StorageExceeded"}},
	{Name: "log rotation", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"LogRotated"}},
	{Name: "images", Hooks: recoversStoresRuns, Facts: []string{"ImagesObserved", "ImageFilesystemFull"}},
	{Name: "objects", Hooks: recoversStoresRuns, Facts: []string{"ObjectsRead"}},
	{Name: "credentials", Hooks: recoversStores},
	{Name: "manifests", Hooks: recoversStores},
	{Name: "once", Hooks: storesRuns, Optional: true},
	{Name: "log", Hooks: stores},
	{Name: "metrics", Hooks: stores},
	{Name: "shutdown", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"ShutdownSignaled"}},
	{Name: "pressure", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"PressureObserved"}},
	{Name: "device plugins", Hooks: storesRuns, Optional: true,
		Facts: []string{"DevicesObserved", "PreferredDevicesRead"}},
	{Name: "traces", Hooks: storesRuns, Optional: true},
	{Name: "Node", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"NodeObserved", "NodeRegistered"}},
	{Name: "claims", Hooks: recoversStores, Optional: true},
	{Name: "health of DRA devices", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"ClaimHealthObserved"}},
	{Name: "status of pods", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"ApiDeleteFinished"}},
	{Name: "mirror pods", Hooks: recoversStoresRuns, Optional: true},
	{Name: "events", Hooks: recoversStoresRuns, Optional: true},
	{Name: "pods API", Hooks: storesRuns, Optional: true},
	{Name: "volumes", Hooks: recoversRuns, Facts: []string{"VolumesLost", "PodDirectoryFound"}},
	{Name: "cgroups", Hooks: recoversRuns, Optional: true, Facts: []string{"PodCgroupLost"}},
	{Name: "pleg", Hooks: recoversStoresRuns, Facts: []string{"PodObserved"}},
	{Name: "file source", Hooks: recoversRuns, Facts: []string{"ManifestsRead"}},
	{Name: "http source", Hooks: recoversRuns, Optional: true, Facts: []string{"ManifestsRead"}},
	{Name: "api source", Hooks: recoversStoresRuns, Optional: true, Facts: []string{"ManifestsRead"}},

	// These neither take a state nor see records.
	{Name: "oom", Hooks: runs, Optional: true, Facts: []string{"OomKillObserved"}},
	{Name: "API server", Hooks: runs, Optional: true, Facts: []string{"ApiServerContact"}},
	{Name: "client certificate", Hooks: runs, Optional: true, Facts: []string{"CertificateChanged"}},
	{Name: "serving certificate", Hooks: runs, Optional: true, Facts: []string{"CertificateChanged"}},
	{Name: "services", Hooks: runs, Optional: true},
	{Name: "runtime classes", Hooks: runs, Optional: true},
	{Name: "CSI drivers", Hooks: runs, Optional: true},
	{Name: "CSI volumes", Hooks: runs, Optional: true},
	{Name: "ResourceSlices", Hooks: runs, Optional: true},
	{Name: "plugins", Hooks: runs, Optional: true},
	{Name: "pod resources", Hooks: runs, Optional: true},
	{Name: "iptables", Hooks: runs, Optional: true},
	{Name: "reserved cgroups", Hooks: runs},
	{Name: "retention", Hooks: runs},
	{Name: "server", Hooks: runs, Facts: []string{"SessionStarted", "SessionEnded"}},
	{Name: "server for the cluster", Hooks: runs, Optional: true},
	{Name: "read-only server", Hooks: runs, Optional: true},
	{Name: "health server", Hooks: runs},
}
