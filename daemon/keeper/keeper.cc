// SPDX-License-Identifier: Apache-2.0
//
// qpbroker-keeper: holds what must survive qpbrokerd. For each entry that the daemon sends it keeps
// the descriptors and the bytes that came in one message, until the daemon drops it; a new daemon
// takes everything back. It understands nothing of it, and has no reason to end.
//
// One daemon at a time: the next connection is accepted when the one before has ended, and so only
// after all that a dead daemon had sent was read. Since nothing else is ever executed than the
// keeper's own next version, which needs them all, no descriptor is closed on exec.
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "daemon/keeper/protocol.h"
#include "daemon/keeper/store.h"

namespace qpbroker::keeper {
namespace {

constexpr char kUsage[] =
    "usage: qpbroker-keeper SOCKET\n\n"
    "Keeps descriptors for qpbrokerd across its restarts. SOCKET: where the daemon finds it, e.g.\n"
    "/run/qpbroker/keeper.sock; a socket passed by systemd is used instead.\n"
    "SIGHUP: executes its program anew and keeps everything. SIGUSR1: says how much is kept.\n";

// What an exec of itself hands on: "MEMORY_FILE LISTENER CONNECTION".
constexpr char kStateVariable[] = "QPBROKER_KEEPER_STATE";
constexpr int kFirstPassedFd = 3;  // sd_listen_fds(3).

struct Keeper {
  Store store;
  int signals = -1;
  int listener = -1;
  int connection = -1;
  char** argv = nullptr;
};

void SayHowMuch(const Store& store) {
  fprintf(stderr, "qpbroker-keeper: holds %zu entries with %zu descriptors\n", store.entries(),
          store.descriptors());
}

int Fail(const char* what) {
  fprintf(stderr, "qpbroker-keeper: %s: %s\n", what, strerror(errno));
  return -1;
}

// ---- Messages.

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxEntryFds)];
};

bool Send(int socket, Op op, uint64_t id, const Entry* entry) {
  Header header{op, entry == nullptr ? 0 : entry->size, id};
  iovec pieces[] = {{&header, sizeof(header)},
                    {entry == nullptr ? nullptr : const_cast<char*>(entry->record), header.size}};
  Control control = {};
  msghdr packet = {};
  packet.msg_iov = pieces;
  packet.msg_iovlen = 2;
  if (entry != nullptr && entry->fd_count > 0) {
    packet.msg_control = control.bytes;
    packet.msg_controllen = CMSG_SPACE(sizeof(int) * entry->fd_count);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int) * entry->fd_count);
    memcpy(CMSG_DATA(&control.header), entry->fds, sizeof(int) * entry->fd_count);
  }
  ssize_t sent;
  // That many of this user's descriptors are on their way: they will be received.
  while ((sent = sendmsg(socket, &packet, MSG_NOSIGNAL)) < 0 && errno == ETOOMANYREFS) {
    poll(nullptr, 0, 1);
  }
  return sent >= 0;
}

// One message: what is to be done, and the entry that came with it.
struct Message {
  Op op;
  bool whole;  // Nothing was cut off, neither bytes nor descriptors.
  Entry* entry;
};

// False: the connection is over, or what comes from it is no message.
bool Receive(int socket, Message& message) {
  alignas(Entry) static char buffer[sizeof(Entry) + kMaxRecordBytes];
  message.entry = reinterpret_cast<Entry*>(buffer);
  message.entry->fd_count = 0;
  Header header = {};
  iovec pieces[] = {{&header, sizeof(header)}, {message.entry->record, kMaxRecordBytes}};
  Control control = {};
  msghdr packet = {};
  packet.msg_iov = pieces;
  packet.msg_iovlen = 2;
  packet.msg_control = control.bytes;  // The kernel drops descriptors beyond this room.
  packet.msg_controllen = sizeof(control.bytes);
  const ssize_t size = recvmsg(socket, &packet, 0);
  if (size <= 0) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&packet);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    const size_t bytes = rights->cmsg_len - CMSG_LEN(0);
    memcpy(message.entry->fds, CMSG_DATA(rights), bytes);
    message.entry->fd_count = static_cast<uint32_t>(bytes / sizeof(int));
  }
  message.op = header.op;
  message.whole = (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  message.entry->id = header.id;
  message.entry->size = header.size;
  return !message.whole || static_cast<size_t>(size) == sizeof(header) + header.size;
}

// ---- Serving.

bool GiveEverything(const Keeper& keeper) {
  int socket = keeper.connection;
  keeper.store.ForEach(
      [](const Entry& entry, void* context) {
        int& to = *static_cast<int*>(context);
        if (to >= 0 && !Send(to, Op::kEntry, entry.id, &entry)) to = -1;
      },
      &socket);
  return socket >= 0 && Send(socket, Op::kEnd, keeper.store.entries(), nullptr);
}

// False: the connection is over. The store owns the message's descriptors if `kept`.
bool Obey(Keeper& keeper, const Message& message, bool& kept) {
  switch (message.op) {
    case Op::kKeep:
      kept = message.whole && keeper.store.Keep(*message.entry);
      return kept || Send(keeper.connection, Op::kRefused, message.entry->id, nullptr);
    case Op::kDrop:
      keeper.store.Drop(message.entry->id);
      return true;
    case Op::kTake:
      return GiveEverything(keeper);
    case Op::kReset:
      keeper.store.Reset();
      return true;
    default:
      return false;
  }
}

void ServeMessage(Keeper& keeper) {
  Message message;
  bool kept = false;
  const bool go_on = Receive(keeper.connection, message) && Obey(keeper, message, kept);
  for (uint32_t i = 0; !kept && i < message.entry->fd_count; ++i) close(message.entry->fds[i]);
  if (go_on) return;
  close(keeper.connection);
  keeper.connection = -1;
}

void Accept(Keeper& keeper) {
  keeper.connection = accept(keeper.listener, nullptr, nullptr);
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (keeper.connection < 0 ||
      (getsockopt(keeper.connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
       peer.uid == geteuid())) {
    return;
  }
  fprintf(stderr, "qpbroker-keeper: a connection of uid %u was refused\n", peer.uid);
  close(keeper.connection);
  keeper.connection = -1;
}

// Returns only when it failed: then everything goes on as before.
void ExecAnew(const Keeper& keeper) {
  const int memory_file = keeper.store.Freeze();
  if (memory_file < 0) {
    Fail("no memory to hand everything on");
    return;
  }
  char state[64];
  snprintf(state, sizeof(state), "%d %d %d", memory_file, keeper.listener, keeper.connection);
  setenv(kStateVariable, state, 1);
  close(keeper.signals);
  execv(keeper.argv[0], keeper.argv);
  Fail(keeper.argv[0]);
  close(memory_file);
}

int WatchSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, 0);
}

void HandleSignal(Keeper& keeper) {
  signalfd_siginfo signal;
  if (read(keeper.signals, &signal, sizeof(signal)) != sizeof(signal)) return;
  if (signal.ssi_signo == SIGUSR1) return SayHowMuch(keeper.store);
  ExecAnew(keeper);
  keeper.signals = WatchSignals();
}

[[noreturn]] void Run(Keeper& keeper) {
  for (;;) {
    const bool connected = keeper.connection >= 0;
    pollfd fds[] = {{keeper.signals, POLLIN, 0},
                    {connected ? keeper.connection : keeper.listener, POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[0].revents != 0) {
      HandleSignal(keeper);
    } else if (fds[1].revents != 0) {
      connected ? ServeMessage(keeper) : Accept(keeper);
    }
  }
}

// ---- Starting.

// For this user alone. What is at `path` already goes only if it is a socket without a listener.
int Listen(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
      static_cast<int>(sizeof(address.sun_path))) {
    errno = ENAMETOOLONG;
    return Fail(path);
  }
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  struct stat status;
  if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode)) {
    if (connect(listener, name, sizeof(address)) == 0) errno = EADDRINUSE;
    if (errno != ECONNREFUSED) return Fail(path);
    unlink(path);
  }
  umask(077);
  const bool listening = bind(listener, name, sizeof(address)) == 0 && listen(listener, 16) == 0;
  return listening ? listener : Fail(path);
}

int FindListener(const char* path) {
  const char* receiver = getenv("LISTEN_PID");
  const bool passed = receiver != nullptr && atoi(receiver) == getpid();
  return passed ? kFirstPassedFd : Listen(path);
}

void RaiseFileLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// From the process that this one was before its exec; false: there was none.
bool Continue(Keeper& keeper) {
  const char* state = getenv(kStateVariable);
  int memory_file;
  if (state == nullptr ||
      sscanf(state, "%d %d %d", &memory_file, &keeper.listener, &keeper.connection) != 3) {
    return false;
  }
  unsetenv(kStateVariable);
  if (!keeper.store.Thaw(memory_file)) Fail("a part of what was kept is lost");
  return true;
}

}  // namespace
}  // namespace qpbroker::keeper

int main(int argc, char** argv) {
  using namespace qpbroker::keeper;  // NOLINT: this file's own.
  if (argc != 2 || argv[1][0] != '/') {
    fputs(kUsage, stderr);
    return 2;
  }
  Keeper keeper;
  keeper.argv = argv;
  signal(SIGPIPE, SIG_IGN);  // Nobody reads the log.
  RaiseFileLimit();
  keeper.signals = WatchSignals();
  if (!Continue(keeper)) keeper.listener = FindListener(argv[1]);
  if (keeper.listener < 0) return 1;
  SayHowMuch(keeper.store);
  Run(keeper);
}
