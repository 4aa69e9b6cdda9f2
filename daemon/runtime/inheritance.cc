// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/inheritance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::runtime {
namespace {

// Of the records that this program writes, and of the least one that it reads (record.proto).
constexpr uint32_t kSchema = 1;
constexpr uint32_t kLeastReader = 1;
constexpr uint32_t kOldestSchema = 1;

absl::Status CheckSchema(const keeper::v1::Store& store) {
  if (store.least_reader() <= kSchema && store.schema() >= kOldestSchema) return absl::OkStatus();
  return MakeError(
      v1::REASON_INTERNAL,
      absl::StrCat("what the keeper has was written in schema ", store.schema(),
                   " and this version reads ", kOldestSchema, " to ", kSchema,
                   "; nothing was touched. Start the version that wrote it, or let that one stop "
                   "in order, which gives everything back"));
}

// In which life an id was given.
uint32_t LifeOf(uint64_t id) { return static_cast<uint32_t>(id >> 32); }

uint32_t LifeOf(const keeper::v1::Record& record) {
  return std::max({record.store().life(), LifeOf(record.xrcd().id()), LifeOf(record.qp().id()),
                   LifeOf(record.lease().id())});
}

}  // namespace

std::set<std::string> Inheritance::Devices() const {
  std::set<std::string> names;
  for (const core::KeptObject& object : kept) {
    if (object.record.has_xrcd()) names.insert(object.record.xrcd().device());
  }
  return names;
}

absl::StatusOr<Inheritance> Inherit(std::vector<core::KeptObject> kept, core::KeeperPort& keeper,
                                    core::Generation fresh) {
  Inheritance inheritance;
  inheritance.generation = fresh;
  for (const core::KeptObject& object : kept) {
    // The store's own record may be what was lost: no id is given twice all the same.
    inheritance.life = std::max(inheritance.life, LifeOf(object.record) + 1);
    if (!object.record.has_store()) continue;
    if (absl::Status status = CheckSchema(object.record.store()); !status.ok()) return status;
    inheritance.generation = core::Generation(object.record.store().generation());
    inheritance.store = object.entry;
  }
  std::erase_if(kept, [](const core::KeptObject& object) { return object.record.has_store(); });
  inheritance.kept = std::move(kept);
  if (inheritance.store == nullptr) inheritance.store = keeper.NewEntry();
  keeper::v1::Record record;
  record.mutable_store()->set_schema(kSchema);
  record.mutable_store()->set_least_reader(kLeastReader);
  record.mutable_store()->set_generation(inheritance.generation.value());
  record.mutable_store()->set_life(inheritance.life);
  inheritance.store->Keep(record, {});
  return inheritance;
}

}  // namespace qpbroker::runtime
