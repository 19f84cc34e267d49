package config

// The gates that are honoured. kubelet 1.37: PodsAPI is beta and on, and follows AllBeta unless it is set itself.
const (
	gatePodsAPI = "PodsAPI"
	gateAllBeta = "AllBeta"
)

// applyGates applies the feature gates that are honoured. The others concern code of the kubelet.
func (c *Config) applyGates(gates map[string]bool, file string) []Problem {
	on, given := gates[gatePodsAPI]
	if !given {
		on, given = gates[gateAllBeta]
	}
	c.NoPodsAPI = given && !on
	for name := range gates {
		if name != gatePodsAPI {
			return []Problem{{File: file, Field: "featureGates",
				Message: "of the kubelet's feature gates PodsAPI applies, the others are ignored"}}
		}
	}
	return nil
}

// gates returns the gates that are not as by default.
func (c *Config) gates() map[string]bool {
	if c.NoPodsAPI {
		return map[string]bool{gatePodsAPI: false}
	}
	return nil
}
