// SPDX-License-Identifier: Apache-2.0
#include "client/src/event_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/event_record.h"

namespace qpbroker::client {
namespace {

// Reads of one call: it returns to the application also where events come without end.
constexpr int kMaxReads = 8;

std::optional<Event::Kind> KindOf(EventKind kind) {
  switch (kind) {
    case EventKind::kOverflow:
      return Event::Kind::kOverflow;
    case EventKind::kQpError:
      return Event::Kind::kQpError;
    case EventKind::kPortActive:
      return Event::Kind::kPortActive;
    case EventKind::kPortDown:
      return Event::Kind::kPortDown;
    case EventKind::kDeviceGone:
      return Event::Kind::kDeviceGone;
    case EventKind::kRevoked:
      return Event::Kind::kRevoked;
    case EventKind::kQpDestroyed:
      return Event::Kind::kQpDestroyed;
    case EventKind::kQpEvent:
      return Event::Kind::kQpEvent;
  }
  return std::nullopt;
}

void AppendEvent(const EventRecord& record, std::vector<Event>& events) {
  if (std::optional<Event::Kind> kind = KindOf(record.kind)) {
    events.push_back({.kind = *kind,
                      .qp_num = record.qp_num,
                      .port = record.port,
                      .detail = record.detail,
                      .sequence = record.sequence});
  }
}

ssize_t ReadSome(int fd, char* buffer, size_t size) {
  ssize_t count;
  do {
    count = read(fd, buffer, size);
  } while (count < 0 && errno == EINTR);
  return count;
}

}  // namespace

absl::Status EventReader::Read(int fd, std::vector<Event>& events) {
  for (int i = 0; i < kMaxReads && !gone_; ++i) {
    std::array<char, PIPE_BUF> buffer;
    ssize_t count = ReadSome(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EAGAIN) break;
    // Nothing but the end can be read from a pipe without writers; another error is no different.
    if (count <= 0) {
      gone_ = true;
      events.push_back({.kind = Event::Kind::kGone});
      break;
    }
    pending_.append(buffer.data(), static_cast<size_t>(count));
    if (absl::Status status = Parse(events); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status EventReader::Parse(std::vector<Event>& events) {
  size_t at = 0;
  while (pending_.size() - at >= sizeof(EventRecord)) {
    EventRecord record;
    std::memcpy(&record, pending_.data() + at, sizeof(record));
    if (record.size < sizeof(record) || record.size > PIPE_BUF) {
      pending_.clear();
      return MakeError(v1::REASON_PROTOCOL_VIOLATION, "a lease's event cannot be read",
                       {{"size", absl::StrCat(record.size)}});
    }
    if (pending_.size() - at < record.size) break;
    AppendEvent(record, events);
    at += record.size;
  }
  pending_.erase(0, at);
  return absl::OkStatus();
}

}  // namespace qpbroker::client
