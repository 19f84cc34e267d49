package resources

// Units of a limit of CPU (kubelet: MilliCPUToCPU, QuotaPeriod).
const (
	// MilliPerCPU is how many units of a manifest a CPU has.
	MilliPerCPU = 1000
	// PeriodMicros is the period of every quota, in microseconds, unless the node is configured otherwise.
	PeriodMicros = 100_000
)

// minQuota is the kernel's least quota, in microseconds (kubelet: MinQuotaPeriod).
const minQuota = 1_000

// QuotaMicros returns the CPU time in each period for thousandths of a CPU, both in microseconds. It is at least 1000.
// The product of milli and period has to fit into 64 bits.
func QuotaMicros(milli, period int64) int64 { return max(milli*period/MilliPerCPU, minQuota) }
