// SPDX-License-Identifier: Apache-2.0
//
// Flags, configuration, backend, Serve; no logic.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "common/error_reason.h"
#include "common/version.h"
#include "daemon/runtime/config.h"
#include "daemon/runtime/server.h"
#include "daemon/verbs/device_watcher.h"
#include "daemon/verbs/fake_verbs.h"
#include "daemon/verbs/ibv_verbs.h"

namespace {

using namespace qpbroker;  // NOLINT: main only joins what the project has.

class UdevChanges : public runtime::DeviceChanges {
 public:
  explicit UdevChanges(std::unique_ptr<verbs::DeviceWatcher> watcher)
      : watcher_(std::move(watcher)) {}
  int fd() const override { return watcher_->fd(); }
  void Drain() override { watcher_->Drain(); }

 private:
  const std::unique_ptr<verbs::DeviceWatcher> watcher_;
};

absl::Status ServeOnHardware(const runtime::Config& config) {
  absl::StatusOr<std::unique_ptr<verbs::DeviceWatcher>> watcher = verbs::DeviceWatcher::Create();
  if (!watcher.ok()) return watcher.status();
  UdevChanges changes(*std::move(watcher));
  verbs::IbvVerbs verbs;
  return runtime::Serve(config, verbs, &changes);
}

absl::Status ServeInMemory(const runtime::Config& config) {
  std::unique_ptr<verbs::FakeKernel> kernel = verbs::MakeLaptopKernel();
  verbs::FakeVerbs verbs(*kernel);
  return runtime::Serve(config, verbs, nullptr);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "qpbrokerd: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Brokers access to sharable RDMA queue pairs (XRC target QPs).", "qpbrokerd");
  std::string config_file;
  std::string runtime_dir;
  std::string backend = "ibverbs";
  bool check_config = false;
  app.add_option("--config", config_file, "Configuration file (text format of config.proto)")
      ->type_name("FILE");
  app.add_option("--runtime-dir", runtime_dir,
                 "Directory of the sockets, in place of the configuration's")
      ->type_name("DIR");
  app.add_option("--backend", backend,
                 "ibverbs: the machine's devices; fake: a device in memory, without data path")
      ->check(CLI::IsMember({"ibverbs", "fake"}));
  app.add_flag("--check-config", check_config, "Check the configuration and exit");
  app.set_version_flag("--version", std::string("qpbrokerd ") + kVersion);
  CLI11_PARSE(app, argc, argv);

  absl::StatusOr<runtime::Config> config = runtime::LoadConfig(config_file, runtime_dir);
  if (!config.ok()) return Fail(config.status());
  if (check_config) {
    std::puts("the configuration is valid");
    return 0;
  }
  absl::Status served = backend == "fake" ? ServeInMemory(*config) : ServeOnHardware(*config);
  return served.ok() ? 0 : Fail(served);
}
