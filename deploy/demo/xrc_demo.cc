// SPDX-License-Identifier: Apache-2.0
//
// The demo's clients, each a process of its own. What they say on standard output is for show.sh.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "deploy/demo/xrc_endpoint.h"
#include "qpbroker/client.h"
#include "qpbroker/verbs_util.h"

namespace {

struct Options {
  std::string runtime_dir = "/run/qpbroker";
  std::string device;
  uint32_t owner = 0;
  std::string domain = "job-7";
  std::string key = "a0";
  uint32_t group = 0;
  bool create = false;
};

template <class T>
T Need(qpbroker::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "refused: %s\n", result.error().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

void Say(const std::string& line) { std::cout << line << std::endl; }

struct Opened {
  qpbroker::Client client;
  qpbroker::Xrcd domain;
  qpbroker::Qp qp;
};

Opened Open(const Options& options) {
  qpbroker::Client client = Need(qpbroker::Client::Connect({.runtime_dir = options.runtime_dir}));
  qpbroker::OpenXrcdOptions open = {.device = options.device, .name = options.domain};
  if (options.create) {
    open.create = true;
    open.mode = 0660;
    open.gid = options.group;
  } else {
    open.owner_uid = options.owner;
  }
  qpbroker::Xrcd domain = Need(client.OpenXrcd(open));
  qpbroker::Qp qp = options.create ? Need(client.CreateQp(domain.name(), {.key = options.key}))
                                   : Need(client.OpenQp(domain.name(), options.key));
  return {std::move(client), std::move(domain), std::move(qp)};
}

// Opens and holds until its input ends: what is possible without a data path.
int Hold(const Options& options) {
  Opened opened = Open(options);
  Say("HOLDS " + opened.qp.name());
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

// Opens, holds, and says each event of the QP's lease, until its input ends.
int Watch(const Options& options) {
  Opened opened = Open(options);
  qpbroker::Lease& lease = *opened.qp.lease();
  bool gone = false;
  lease.OnEvent([&gone](const qpbroker::Event& event) {
    char text[64];
    std::snprintf(text, sizeof(text), "%s 0x%06x",
                  std::string(qpbroker::EventKindName(event.kind)).c_str(), event.qp_num);
    Say(text);
    gone = event.kind == qpbroker::Event::Kind::kGone;
  });
  Say("HOLDS " + opened.qp.name());
  while (true) {
    pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {gone ? -1 : lease.fd(), POLLIN, 0}};
    poll(waits, 2, -1);
    if (waits[1].revents != 0) Need(lease.ProcessEvents());
    if (waits[0].revents != 0) return 0;
  }
}

// Opens the QP in the kernel too, gives the lease back and keeps the kernel's handle until its
// input ends: what a member of a domain can always do.
int Keep(const Options& options) {
  Opened opened = Open(options);
  qpbroker::ContextHandle context = Need(qpbroker::OpenDeviceContext(options.device));
  qpbroker::QpHandle handle =
      Need(qpbroker::OpenQpHandle(context.get(), opened.domain, opened.qp.number()));
  Need(opened.qp.Close());
  Need(opened.domain.Close());
  Say("KEEPS " + opened.qp.name());
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

int Receive(const Options& options) {
  Opened opened = Open(options);
  qpbroker::ContextHandle context = Need(qpbroker::OpenDeviceContext(options.device));
  qpbroker::XrcdHandle xrcd = Need(qpbroker::OpenXrcdHandle(context.get(), opened.domain));
  demo::XrcReceiver receiver(context.get(), xrcd.get());
  Say("HOLDS " + opened.qp.name());
  Say("SRQ " + std::to_string(receiver.srq_number()));
  pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {receiver.fd(), POLLIN, 0}};
  while (poll(waits, 2, -1) > 0) {
    if (waits[1].revents != 0) {
      for (const std::string& text : receiver.Take()) Say("RECEIVED " + text);
    }
    if (waits[0].revents != 0) return 0;  // Whoever started us closed our input.
  }
  return 1;
}

// Connects its initiator QP with the shared target QP, then sends each line "SRQ_NUMBER TEXT" of
// its input.
int Send(const Options& options) {
  Opened opened = Open(options);
  qpbroker::ContextHandle context = Need(qpbroker::OpenDeviceContext(options.device));
  demo::XrcSender sender(context.get());
  const demo::Address mine = sender.address();
  qpbroker::ConnectQpOptions connect;
  connect.remote = {.qp_num = mine.qp_num, .psn = mine.psn, .path = {.dlid = mine.lid}};
  qpbroker::QpEndpoint target = Need(opened.client.ConnectQp(opened.qp.name(), connect)).endpoint;
  sender.Connect({target.qp_num, target.lid, target.psn, target.mtu});
  char text[64];
  std::snprintf(text, sizeof(text), "CONNECTED 0x%06x -> 0x%06x", mine.qp_num, target.qp_num);
  Say(text);
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t space = line.find(' ');
    const auto srq = static_cast<uint32_t>(std::stoul(line.substr(0, space)));
    if (!sender.Send(srq, line.substr(space + 1))) return 1;
    Say("SENT to SRQ " + std::to_string(srq) + ": " + line.substr(space + 1));
  }
  return 0;
}

int WhoAmI(const Options& options) {
  qpbroker::Client client = Need(qpbroker::Client::Connect({.runtime_dir = options.runtime_dir}));
  qpbroker::Identity identity = Need(client.WhoAmI());
  Say("uid " + std::to_string(identity.uid) + ", generation " + identity.generation);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The clients of qpbroker's demo.");
  Options options;
  app.add_option("--runtime-dir", options.runtime_dir, "Where the daemon's sockets are");
  app.add_option("--device", options.device, "The device");
  app.add_option("--owner", options.owner, "Uid of the domain's owner");
  app.add_option("--domain", options.domain, "Name of the domain");
  app.add_option("--key", options.key, "Key of the QP");
  app.add_option("--group", options.group, "Group of a domain that is created");
  app.add_flag("--create", options.create, "Create domain and QP");
  app.require_subcommand(1);
  CLI::App* hold = app.add_subcommand("hold", "Open and hold");
  CLI::App* watch = app.add_subcommand("watch", "Open, hold and tell events");
  CLI::App* keep = app.add_subcommand("keep", "Keep the kernel's handle without a lease");
  CLI::App* receive = app.add_subcommand("receive", "Open, attach an XRC SRQ and receive");
  CLI::App* send = app.add_subcommand("send", "Open, connect and send");
  app.add_subcommand("whoami", "Ask who the caller is");
  CLI11_PARSE(app, argc, argv);
  if (*hold) return Hold(options);
  if (*watch) return Watch(options);
  if (*keep) return Keep(options);
  if (*receive) return Receive(options);
  if (*send) return Send(options);
  return WhoAmI(options);
}
