// SPDX-License-Identifier: Apache-2.0
#include "daemon/keeper/store.h"

#include <search.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace qpbroker::keeper {
namespace {

int InOrderOfIds(const void* a, const void* b) {
  const uint64_t left = static_cast<const Entry*>(a)->id;
  const uint64_t right = static_cast<const Entry*>(b)->id;
  return left < right ? -1 : left > right;
}

Entry* EntryAt(const void* node) { return *static_cast<Entry* const*>(node); }

size_t BytesOf(const Entry& entry) { return sizeof(entry) + entry.size; }

void CloseAndFree(void* entry) {
  const auto* closed = static_cast<const Entry*>(entry);
  for (uint32_t i = 0; i < closed->fd_count; ++i) close(closed->fds[i]);
  free(entry);
}

struct Visitor {
  void (*visit)(const Entry& entry, void* context);
  void* context;
};

// tsearch shows a leaf once and another node three times, of which the second is in order.
void VisitNode(const void* node, VISIT which, void* closure) {
  const auto* visitor = static_cast<const Visitor*>(closure);
  if (which == postorder || which == leaf) visitor->visit(*EntryAt(node), visitor->context);
}

}  // namespace

bool Store::Keep(const Entry& entry) {
  if (entries_ >= kMaxEntries) return false;
  auto* copy = static_cast<Entry*>(malloc(BytesOf(entry)));
  if (copy == nullptr) return false;
  memcpy(static_cast<void*>(copy), &entry, BytesOf(entry));
  void* node = tsearch(copy, &tree_, InOrderOfIds);
  if (node == nullptr) {
    free(copy);
    return false;
  }
  descriptors_ += entry.fd_count;
  if (EntryAt(node) == copy) return ++entries_ > 0;
  Entry* old = EntryAt(node);
  *static_cast<Entry**>(node) = copy;
  if (entry.fd_count == 0) {
    memcpy(copy->fds, old->fds, sizeof(old->fds));
    copy->fd_count = old->fd_count;
    old->fd_count = 0;
  }
  descriptors_ -= old->fd_count;
  CloseAndFree(old);
  return true;
}

void Store::Drop(uint64_t id) {
  const Entry key{id, 0, 0, {}};
  void* node = tfind(&key, &tree_, InOrderOfIds);
  if (node == nullptr) return;
  Entry* entry = EntryAt(node);
  tdelete(entry, &tree_, InOrderOfIds);
  --entries_;
  descriptors_ -= entry->fd_count;
  CloseAndFree(entry);
}

void Store::Reset() {
  tdestroy(tree_, CloseAndFree);
  *this = Store();
}

void Store::ForEach(void (*visit)(const Entry& entry, void* context), void* context) const {
  Visitor visitor{visit, context};
  twalk_r(tree_, VisitNode, &visitor);
}

int Store::Freeze() const {
  int file = memfd_create("keeper", 0);
  ForEach(
      [](const Entry& entry, void* context) {
        int& to = *static_cast<int*>(context);
        const auto size = static_cast<ssize_t>(BytesOf(entry));
        if (to < 0 || write(to, &entry, BytesOf(entry)) == size) return;
        close(to);
        to = -1;
      },
      &file);
  if (file >= 0) lseek(file, 0, SEEK_SET);
  return file;
}

bool Store::Thaw(int memory_file) {
  alignas(Entry) char buffer[sizeof(Entry) + kMaxRecordBytes];
  auto& entry = *reinterpret_cast<Entry*>(buffer);
  ssize_t got;
  while ((got = read(memory_file, &entry, sizeof(entry))) == sizeof(entry)) {
    if (entry.size > kMaxRecordBytes || entry.fd_count > kMaxEntryFds) break;
    if (read(memory_file, entry.record, entry.size) != static_cast<ssize_t>(entry.size)) break;
    if (!Keep(entry)) break;
  }
  close(memory_file);
  return got == 0;
}

}  // namespace qpbroker::keeper
