// SPDX-License-Identifier: Apache-2.0
//
// Latencies of one client that makes one call after another, contestants interleaved. Prints one
// JSON object; tests/bench/run makes a table of it.
//
//   bench QPBROKERD ROUNDS CALLS
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/contestants.h"

namespace qpbroker::bench {

void Die(const std::string& message) {
  std::fprintf(stderr, "bench: %s\n", message.c_str());
  std::exit(1);
}

Child::Child(const std::vector<std::string>& arguments) : pid_(fork()) {
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

Child::~Child() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

namespace {

using Clock = std::chrono::steady_clock;

struct Figures {
  double p50 = 0;  // Microseconds.
  double p99 = 0;
};

Figures Measure(const Contestant& contestant, int calls) {
  for (int i = 0; i < calls / 10; ++i) contestant.call();
  std::vector<double> times;
  times.reserve(static_cast<size_t>(calls));
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    contestant.call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

void Run(const std::string& qpbrokerd, int rounds, int calls) {
  char pattern[] = "/tmp/qpb-bench-XXXXXX";
  const std::string work = mkdtemp(pattern);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  {
    Child grpc({self, "serve-bare-grpc", work + "/grpc.sock"});
    Child raw({self, "serve-raw-fd", work + "/raw.sock"});
    Child daemon({qpbrokerd, "--backend", "fake", "--runtime-dir", work + "/run"});
    const std::vector<Contestant> contestants = {BareGrpc(work + "/grpc.sock"),
                                                 WhoAmI(work + "/run"), OpenQp(work + "/run"),
                                                 RawFd(work + "/raw.sock")};
    std::printf("[");
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < contestants.size(); ++i) {
        const Figures figures = Measure(contestants[i], calls);
        std::printf("%s{\"round\": %d, \"name\": \"%s\", \"p50_us\": %.2f, \"p99_us\": %.2f}",
                    round + i > 0 ? ",\n" : "", round, contestants[i].name.c_str(), figures.p50,
                    figures.p99);
      }
    }
    std::printf("]\n");
    std::fflush(stdout);
  }
  std::filesystem::remove_all(work);
}

}  // namespace
}  // namespace qpbroker::bench

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (argc == 3 && verb == "serve-bare-grpc") return qpbroker::bench::ServeBareGrpc(argv[2]);
  if (argc == 3 && verb == "serve-raw-fd") return qpbroker::bench::ServeRawFd(argv[2]);
  if (argc != 4) qpbroker::bench::Die("usage: bench QPBROKERD ROUNDS CALLS");
  qpbroker::bench::Run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}
