package rankv1

// The variables by which a rank is told who it is.
const (
	EnvSocket    = "WEIR_AGENT_SOCKET" // path of the agent's socket
	EnvRank      = "WEIR_RANK"         // from 0
	EnvWorldSize = "WEIR_WORLD_SIZE"   // number of ranks
	EnvDevice    = "WEIR_DEVICE"       // the GPU to use: an index, a UUID, a PCI bus id or "auto"
)
