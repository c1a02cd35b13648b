// Times an all-reduce of float32, sum, through Gloo's C++ API over TCP on the loopback interface (it has no transport
// through shared memory).
//
// usage: gloo RANK WORLD STORE_FOLDER ALGORITHM MODE BYTES SECONDS
//   ALGORITHM  new_ring, new_bcube (gloo::allreduce); ring, ring_chunked, halving_doubling, bcube (gloo::Algorithm)
//   MODE       async, sync, busy (the last two for gloo::Algorithm only: Pair::setSync)
//
// Trials and output are those of mpi.c. A gloo::Algorithm works in place, so it is checked on real inputs and timed on
// zeros.
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kTrials = 5;
constexpr size_t kPeriod = 1019;

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Sum = void (*)(void*, const void*, const void*, size_t);

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Small whole numbers: exact in float32 in any order of addition.
float input(int rank, size_t i) { return float((i % kPeriod * 7 + size_t(rank) * 13) % 101); }

// One group for what is measured and one for everything else, so that neither disturbs the other's messages.
struct Groups {
  Context control, data;

  double max(double own) {
    gloo::AllreduceOptions o(control);
    o.setOutput(&own, 1);
    o.setReduceFunction(static_cast<Sum>(&gloo::max<double>));
    gloo::allreduce(o);
    return own;
  }
  void barrier() {
    gloo::BarrierOptions o(control);
    gloo::barrier(o);
  }
};

struct Buffers {
  std::vector<float> in, out;
  bool inPlace = false;
};

std::function<void()> algorithm(const std::string& name, Context context, Buffers& b) {
  const int n = int(b.out.size());
  if (name == "new_ring" || name == "new_bcube") {
    auto o = std::make_shared<gloo::AllreduceOptions>(context);
    o->setInput(b.in.data(), b.in.size());
    o->setOutput(b.out.data(), b.out.size());
    o->setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    o->setAlgorithm(name == "new_ring" ? gloo::AllreduceOptions::Algorithm::RING : gloo::AllreduceOptions::Algorithm::BCUBE);
    return [o] { gloo::allreduce(*o); };
  }
  b.inPlace = true;
  std::shared_ptr<gloo::Context> group = context;
  std::vector<float*> pointers{b.out.data()};
  std::shared_ptr<gloo::Algorithm> a;
  if (name == "ring") {
    a = std::make_shared<gloo::AllreduceRing<float>>(group, pointers, n);
  } else if (name == "ring_chunked") {
    a = std::make_shared<gloo::AllreduceRingChunked<float>>(group, pointers, n);
  } else if (name == "halving_doubling") {
    a = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(group, pointers, n);
  } else if (name == "bcube") {
    a = std::make_shared<gloo::AllreduceBcube<float>>(group, pointers, n);
  } else {
    throw std::invalid_argument("unknown algorithm " + name);
  }
  return [a] { a->run(); };
}

double spent(Groups& g, const std::function<void()>& call, long calls) {
  g.barrier();
  const double start = now();
  for (long i = 0; i < calls; i++) call();
  return g.max((now() - start) / double(calls));
}

long long check(Groups& g, const std::function<void()>& call, Buffers& b) {
  auto& source = b.inPlace ? b.out : b.in;
  for (size_t i = 0; i < source.size(); i++) source[i] = input(g.data->rank, i);
  if (!b.inPlace) std::fill(b.out.begin(), b.out.end(), -1.f);
  g.barrier();
  call();
  long long wrong = 0;
  for (size_t i = 0; i < b.out.size(); i++) {
    float want = 0;
    for (int r = 0; r < g.data->size; r++) want += input(r, i);
    wrong += b.out[i] != want;
  }
  return wrong;
}

int run(char** argv) {
  const int rank = std::atoi(argv[1]), world = std::atoi(argv[2]);
  const std::string mode = argv[5];
  const size_t bytes = std::strtoull(argv[6], nullptr, 10);
  const double seconds = std::atof(argv[7]);
  gloo::transport::tcp::attr attr;
  attr.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(argv[3]);
  gloo::rendezvous::PrefixStore first("control", store), second("data", store);
  Groups g;
  g.control = std::make_shared<gloo::rendezvous::Context>(rank, world);
  g.data = std::make_shared<gloo::rendezvous::Context>(rank, world);
  g.control->connectFullMesh(first, device);
  g.data->connectFullMesh(second, device);
  for (int peer = 0; mode != "async" && peer < world; peer++) {
    if (peer != rank) g.data->getPair(peer)->setSync(true, mode == "busy");
  }
  Buffers b;
  b.in.resize(bytes / sizeof(float));
  b.out.resize(bytes / sizeof(float));
  auto call = algorithm(argv[4], g.data, b);
  double wrong = double(check(g, call, b));
  std::fill(b.out.begin(), b.out.end(), 0.f);

  long calls = 1;
  double each = spent(g, call, calls);
  while (each * double(calls) < 1e-3 && calls < 4096) {
    calls *= 4;
    each = spent(g, call, calls);
  }
  calls = long(std::min(400000., std::max(1., seconds / kTrials / each)));
  std::vector<double> trial;
  for (int t = 0; t < kTrials; t++) trial.push_back(spent(g, call, calls));
  wrong = g.max(wrong + double(check(g, call, b)));
  if (rank == 0) {
    std::printf("{\"bytes\":%zu,\"iterations\":%ld,\"wrong\":%.0f,\"trials\":[", bytes, calls * kTrials, wrong);
    for (int t = 0; t < kTrials; t++) std::printf("%s%.4f", t ? "," : "", trial[t] * 1e6);
    std::printf("]}\n");
    std::fflush(stdout);
  }
  g.barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: gloo RANK WORLD STORE_FOLDER ALGORITHM MODE BYTES SECONDS\n");
    return 2;
  }
  try {
    return run(argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gloo: %s\n", e.what());
    return 1;
  }
}
