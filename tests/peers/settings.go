package main

import "math"

// setting is one way to run a peer, and the cells where it is worth a try: among the best there when every setting was
// tried, on machines with as many cores as ranks and with fewer.
type setting struct {
	peer   string // openmpi, mpich, gloo or torch
	label  string
	when   regime
	least  int64 // bytes
	most   int64
	ranks  int // 0: any number
	args   []string
	args5  []string // instead of args, for Open MPI from 5.0 on, where that spells it differently
	env    []string
	pinned bool // one core for each rank
	from   int  // the first major version that has it; 0: all
}

// regime is how many cores there are.
type regime int

const (
	always  regime = iota
	enough         // a core for every rank
	crowded        // more ranks than cores
)

func (s setting) fits(ranks, cores int, bytes int64) bool {
	switch {
	case s.when == enough && ranks > cores, s.when == crowded && ranks <= cores:
		return false
	case s.ranks != 0 && s.ranks != ranks:
		return false
	}
	return bytes >= s.least && bytes <= s.most
}

const (
	kib     = int64(1) << 10
	mib     = int64(1) << 20
	large   = 4 * mib // from here on memory, not latency, decides
	anySize = int64(math.MaxInt64)
)

func mca(pairs ...string) []string {
	var args []string
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, "--mca", pairs[i], pairs[i+1])
	}
	return args
}

// Parts of Open MPI's command lines. "SM" stands for the name of its shared-memory transport: vader, since 5.0 sm.
var (
	bindCore    = []string{"--bind-to", "core"}
	bindOver    = []string{"--bind-to", "core:overload-allowed"}
	unbound     = []string{"--bind-to", "none"}
	yield       = mca("mpi_yield_when_idle", "1")
	ob1         = mca("pml", "ob1", "btl", "self,SM")
	linear      = tuned("1")
	reduceBcast = tuned("2")
	doubling    = tuned("3")
	ring        = tuned("4")
	rabenseif   = tuned("6")
	noCMA       = mca("btl_vader_single_copy_mechanism", "none")
	noCMA5      = mca("smsc", "^cma")
	eager64     = mca("btl_SM_eager_limit", "65536", "btl_SM_max_send_size", "262144")
	eager256    = mca("btl_SM_eager_limit", "262144", "btl_SM_max_send_size", "1048576")
	ucx         = mca("pml", "ucx", "pml_ucx_tls", "any", "pml_ucx_devices", "any")
)

func tuned(algorithm string) []string {
	return mca("coll_tuned_use_dynamic_rules", "1", "coll_tuned_allreduce_algorithm", algorithm)
}

// collSM is the shared-memory collective, which Open MPI leaves off.
func collSM(fragment string, more ...string) []string {
	args := join(ob1, mca("coll_sm_priority", "100"))
	if fragment != "" {
		args = join(args, mca("coll_sm_fragment_size", fragment))
	}
	return join(args, more)
}

func join(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const (
	frag64  = "65536"
	frag128 = "131072"
	frag256 = "262144"
	frag512 = "524288"
)

// openMPI are Open MPI's settings.
func openMPI() []setting {
	const peer = "openmpi"
	degree8 := mca("coll_sm_tree_degree", "8")
	all := []setting{
		{label: "defaults", when: enough, most: anySize, args: bindCore},
		{label: "coll/sm, bound", when: enough, most: 64 * kib, args: join(bindCore, collSM(""))},
		{label: "coll/sm frag 64K, bound", when: enough, least: 8 * kib, most: anySize, args: join(bindCore, collSM(frag64))},
		{label: "coll/sm frag 128K, bound", when: enough, most: anySize, args: join(bindCore, collSM(frag128))},
		{label: "coll/sm frag 256K, bound", when: enough, least: 512, most: anySize, args: join(bindCore, collSM(frag256))},
		{label: "coll/sm frag 256K degree 8, bound", when: enough, least: 512, most: anySize, args: join(bindCore, collSM(frag256, degree8...))},
		{label: "coll/sm frag 512K, bound", when: enough, least: 64 * kib, most: anySize, args: join(bindCore, collSM(frag512))},
		{label: "ob1 recursive doubling, bound", when: enough, most: mib, args: join(bindCore, ob1, doubling)},
		{label: "ob1 eager 64K rabenseifner, bound", when: enough, least: 8 * kib, most: large, args: join(bindCore, ob1, eager64, rabenseif)},
		{label: "ob1 no CMA rabenseifner, bound", when: enough, least: 8 * kib, most: large, args: join(bindCore, ob1, noCMA, rabenseif), args5: join(bindCore, ob1, noCMA5, rabenseif)},
		{label: "ob1 ring, bound", when: enough, least: 128 * kib, most: anySize, args: join(bindCore, ob1, ring)},
		{label: "ob1 linear, yield, bound", when: crowded, most: 128 * kib, args: join(bindOver, yield, ob1, linear)},
		{label: "ob1 without tuned, yield, bound", when: crowded, most: 8 * kib, args: join(bindOver, yield, ob1, mca("coll", "^tuned"))},
		{label: "ob1 no CMA rabenseifner, yield", when: crowded, most: 512, args: join(unbound, yield, ob1, noCMA, rabenseif), args5: join(unbound, yield, ob1, noCMA5, rabenseif)},
		{label: "ob1 no CMA rabenseifner, yield, bound", when: crowded, least: 64 * kib, most: large, args: join(bindOver, yield, ob1, noCMA, rabenseif), args5: join(bindOver, yield, ob1, noCMA5, rabenseif)},
		{label: "ob1 reduce and broadcast, yield", when: crowded, least: 2 * kib, most: 64 * kib, args: join(unbound, yield, ob1, reduceBcast)},
		{label: "ob1 eager 64K recursive doubling, yield", when: crowded, least: 2 * kib, most: 256 * kib, args: join(unbound, yield, ob1, eager64, doubling)},
		{label: "ob1 eager 256K recursive doubling, yield", when: crowded, from: 5, least: 2 * kib, most: 256 * kib, args: join(unbound, yield, ob1, eager256, doubling)},
		{label: "coll/sm frag 64K, yield, bound", when: crowded, least: 128 * kib, most: large, args: join(bindOver, yield, collSM(frag64))},
		{label: "coll/sm frag 256K, yield, bound", when: crowded, least: 512 * kib, most: anySize, args: join(bindOver, yield, collSM(frag256))},
		{label: "coll/sm frag 256K degree 8, yield", when: crowded, least: 128 * kib, most: anySize, args: join(unbound, yield, collSM(frag256, degree8...))},
		{label: "coll/sm frag 512K, yield", when: crowded, least: large, most: anySize, args: join(unbound, yield, collSM(frag512))},
		{label: "ucx rabenseifner, yield", when: crowded, least: 32 * kib, most: mib, args: join(unbound, yield, ucx, rabenseif), env: []string{"UCX_TLS=self,sm", "UCX_LOG_LEVEL=error"}},
	}
	return of(peer, all)
}

func posix(algorithm string, more ...string) []string {
	return append([]string{"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=" + algorithm}, more...)
}

func intra(algorithm string, more ...string) []string {
	return posix("mpir", append(more, "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM="+algorithm)...)
}

// mpich are MPICH's settings. Debian's builds wait without giving the core away, so with more ranks than cores they are
// told to sleep, where they can.
func mpich() []setting {
	const cells = "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE=131072"
	viaUCX := []string{"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=self,sm"}
	wait := []string{"MPIR_CVAR_POLLS_BEFORE_YIELD=1", "MPIR_CVAR_ENABLE_HEAVY_YIELD=1", "MPIR_CVAR_POSIX_POLL_FREQUENCY=1"}
	bound := []string{"-bind-to", "core"}
	return of("mpich", []setting{
		{label: "defaults, bound", when: enough, most: anySize, args: bound},
		{label: "recursive doubling, cells 128K, bound", when: enough, most: 128 * kib, args: bound, env: intra("recursive_doubling", cells)},
		{label: "ucx recursive doubling, bound", when: enough, most: 8 * kib, args: bound, env: join(viaUCX, intra("recursive_doubling"))},
		{label: "ucx reduce-scatter, bound", when: enough, least: 8 * kib, most: large, args: bound, env: join(viaUCX, intra("reduce_scatter_allgather"))},
		{label: "release-gather, bound", when: enough, most: 128 * kib, args: bound, env: posix("release_gather")},
		{label: "recursive doubling, cells 128K, yield, bound", when: crowded, most: large, args: bound, env: join(wait, intra("recursive_doubling", cells))},
		{label: "defaults, yield", when: crowded, least: 8 * kib, most: 64 * kib, env: wait},
		{label: "release-gather, yield", when: crowded, least: large, most: anySize, env: join(wait, posix("release_gather"))},
	})
}

// gloo are Gloo's settings: algorithm and mode. Its synchronous rings hang once both sides write more than the sockets
// hold.
func gloo() []setting {
	return of("gloo", []setting{
		{label: "ring, busy", when: enough, ranks: 2, most: 64 * kib, args: []string{"ring", "busy"}},
		{label: "ring, sync, pinned", most: 64 * kib, args: []string{"ring", "sync"}, pinned: true},
		{label: "bcube, sync, pinned", most: anySize, args: []string{"bcube", "sync"}, pinned: true},
		{label: "halving-doubling, busy", when: enough, ranks: 2, least: 64 * kib, most: large, args: []string{"halving_doubling", "busy"}},
		{label: "halving-doubling, sync, pinned", least: 64 * kib, most: large, args: []string{"halving_doubling", "sync"}, pinned: true},
		{label: "chunked ring, async, pinned", least: large, most: anySize, args: []string{"ring_chunked", "async"}, pinned: true},
	})
}

func torch() []setting {
	return of("torch", []setting{{label: "defaults", most: anySize}})
}

func of(peer string, settings []setting) []setting {
	for i := range settings {
		settings[i].peer = peer
	}
	return settings
}
