// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_TELEMETRY_EVENTS_H_
#define QPBROKER_DAEMON_TELEMETRY_EVENTS_H_

// The catalogue of what the daemon logs: one line here for each event, found in the log as
// "QPB1201 peer.protocol_violation". Numbers and names are never reused.

#include <cstdint>

namespace qpbroker::telemetry {

enum class Level : uint8_t { kDebug, kInfo, kWarning, kError };

enum class Event : uint16_t {
  kStarted = 1000,
  kStopping = 1001,
  kStopped = 1002,
  kStopTimedOut = 1003,
  kOutOfDescriptors = 1004,
  kHandingOver = 1005,
  kDeviceAdded = 1100,
  kDeviceRemoved = 1101,
  kDeviceFailed = 1102,
  kReleaseFailed = 1103,
  kPeerRefused = 1200,
  kProtocolViolation = 1201,
  kTookOver = 1300,
  kDifference = 1301,
  kKeeperLost = 1302,
  kKeeperBack = 1303,
  kKeeperRefused = 1304,
};

struct EventEntry {
  Event event;
  Level level;
  const char* name;
  const char* meaning;  // For the administrator who meets it for the first time.
};

// By number.
inline constexpr EventEntry kEventCatalogue[] = {
    {Event::kStarted, Level::kInfo, "daemon.started", "all sockets are open"},
    {Event::kStopping, Level::kInfo, "daemon.stopping", "a signal asked the daemon to stop"},
    {Event::kStopped, Level::kInfo, "daemon.stopped", "every kernel object was given back"},
    {Event::kStopTimedOut, Level::kWarning, "daemon.stop_timed_out",
     "a device does not answer; the kernel takes back what is left when the process ends"},
    {Event::kOutOfDescriptors, Level::kError, "daemon.out_of_descriptors",
     "clients are turned away until descriptors are free: raise the limit of open files"},
    {Event::kHandingOver, Level::kInfo, "daemon.handing_over",
     "a signal asked the daemon to end and to leave every reference to its successor"},
    {Event::kDeviceAdded, Level::kInfo, "device.added", "a device was found and opened"},
    {Event::kDeviceRemoved, Level::kWarning, "device.removed",
     "a device went, or reported a fatal error; its holders were told"},
    {Event::kDeviceFailed, Level::kWarning, "device.failed",
     "a device cannot be opened; it is tried again"},
    {Event::kReleaseFailed, Level::kError, "device.release_failed",
     "the kernel did not take an object back; it is listed as lingering and tried again"},
    {Event::kPeerRefused, Level::kWarning, "peer.refused",
     "a client was turned away: its quota is used up, or the kernel does not say who it is"},
    {Event::kProtocolViolation, Level::kWarning, "peer.protocol_violation",
     "a client wrote to its session socket, where only the daemon speaks; its session was ended"},
    {Event::kTookOver, Level::kInfo, "recovery.took_over",
     "what an earlier daemon held is held by this one, under the same names"},
    {Event::kDifference, Level::kWarning, "recovery.difference",
     "something that an earlier daemon left is not what the kernel has; the line says what was "
     "done"},
    {Event::kKeeperLost, Level::kError, "keeper.lost",
     "there is no qpbroker-keeper: references would not survive this daemon; start it"},
    {Event::kKeeperBack, Level::kInfo, "keeper.back",
     "a keeper was found and has been given everything"},
    {Event::kKeeperRefused, Level::kError, "keeper.refused",
     "the keeper could not take something, which would not survive this daemon: raise its limits"},
};

constexpr const EventEntry& EventEntryOf(Event event) {
  for (const EventEntry& entry : kEventCatalogue) {
    if (entry.event == event) return entry;
  }
  return kEventCatalogue[0];
}

}  // namespace qpbroker::telemetry

#endif  // QPBROKER_DAEMON_TELEMETRY_EVENTS_H_
