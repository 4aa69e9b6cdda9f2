// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/resource_name.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

constexpr size_t kMaxName = 64;
constexpr size_t kMaxKey = 128;
constexpr size_t kMaxRequestId = 64;
constexpr size_t kGenerationDigits = 12;

bool ConsistsOf(absl::string_view text, absl::string_view punctuation) {
  return std::all_of(text.begin(), text.end(), [punctuation](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(punctuation, c);
  });
}

// A device's name is the kernel's; the same rule as for domains holds for all that exist.
bool IsDeviceName(absl::string_view text) { return IsXrcdName(text); }

absl::Status Malformed(absl::string_view field, absl::string_view text, absl::string_view form) {
  constexpr size_t kShown = 80;
  return MakeError(v1::REASON_INVALID_FIELD,
                   absl::StrCat(field, ": \"", absl::CEscape(text.substr(0, kShown)),
                                text.size() > kShown ? "..." : "", "\" is not of the form ", form),
                   {{"field", std::string(field)}});
}

// Decimal digits without sign, space or leading zero.
template <class Number>
bool ParseDecimal(absl::string_view text, Number& value) {
  uint64_t wide = 0;
  if (text.empty() || text.size() > 20 || (text.size() > 1 && text[0] == '0') ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &wide) || wide > std::numeric_limits<Number>::max()) {
    return false;
  }
  value = static_cast<Number>(wide);
  return true;
}

// Lower-case hexadecimal digits only, as the daemon writes them.
bool ParseHex(absl::string_view text, uint64_t& value) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); }) &&
         absl::SimpleHexAtoi(text, &value);
}

bool ParseGeneration(absl::string_view text, Generation& generation) {
  uint64_t value = 0;
  if (text.size() != kGenerationDigits || !ParseHex(text, value) || value == 0) return false;
  generation = Generation(value);
  return true;
}

constexpr absl::string_view kXrcdForm = "devices/DEVICE/xrcds/OWNER_UID/NAME[@GENERATION]";

bool ParseXrcdParts(const std::vector<absl::string_view>& parts, XrcdName& name) {
  if (parts.size() < 5 || parts[0] != "devices" || parts[2] != "xrcds" || !IsDeviceName(parts[1]) ||
      !ParseDecimal(parts[3], name.key.owner)) {
    return false;
  }
  std::vector<absl::string_view> tail = absl::StrSplit(parts[4], '@');
  if (tail.size() > 2 || !IsXrcdName(tail[0])) return false;
  if (tail.size() == 2) {
    Generation generation;
    if (!ParseGeneration(tail[1], generation)) return false;
    name.generation = generation;
  }
  name.key.device = std::string(parts[1]);
  name.key.name = std::string(tail[0]);
  return true;
}

}  // namespace

bool IsXrcdName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName && text[0] != '.' && ConsistsOf(text, "._-");
}

bool IsQpKey(absl::string_view text) { return text.size() <= kMaxKey && ConsistsOf(text, "._:/-"); }

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestId && ConsistsOf(text, "._:-");
}

absl::StatusOr<XrcdName> ParseXrcdName(absl::string_view field, absl::string_view text) {
  XrcdName name;
  std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  if (parts.size() != 5 || !ParseXrcdParts(parts, name)) return Malformed(field, text, kXrcdForm);
  return name;
}

absl::StatusOr<QpName> ParseQpName(absl::string_view field, absl::string_view text) {
  QpName name;
  std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  uint64_t number = 0;
  if (parts.size() != 7 || !ParseXrcdParts(parts, name.xrcd) || parts[5] != "qps" ||
      parts[6].size() > 10 || !absl::ConsumePrefix(&parts[6], "0x") ||
      !ParseHex(parts[6], number) || number == 0 || number >= (1u << 24)) {
    return Malformed(field, text, absl::StrCat(kXrcdForm, "/qps/0xNUMBER"));
  }
  name.number = static_cast<uint32_t>(number);
  return name;
}

absl::StatusOr<LeaseName> ParseLeaseName(absl::string_view field, absl::string_view text) {
  absl::string_view rest = text;
  std::vector<absl::string_view> parts;
  uint64_t id = 0;
  Generation generation;
  if (absl::ConsumePrefix(&rest, "leases/")) parts = absl::StrSplit(rest, '@');
  if (parts.size() != 2 || !ParseDecimal(parts[0], id) || id == 0 ||
      !ParseGeneration(parts[1], generation)) {
    return Malformed(field, text, "leases/ID@GENERATION");
  }
  return LeaseName{LeaseId(id), generation};
}

absl::StatusOr<std::string> ParseDeviceName(absl::string_view field, absl::string_view text) {
  absl::string_view name = absl::StripPrefix(text, "devices/");
  if (!IsDeviceName(name)) return Malformed(field, text, "[devices/]DEVICE");
  return std::string(name);
}

std::string FormatGeneration(Generation generation) {
  return absl::StrFormat("%012x", generation.value());
}

std::string FormatXrcdName(const XrcdKey& key, Generation generation) {
  return absl::StrCat("devices/", key.device, "/xrcds/", key.owner, "/", key.name, "@",
                      FormatGeneration(generation));
}

std::string FormatQpName(const XrcdKey& key, Generation generation, uint32_t number) {
  return absl::StrCat(FormatXrcdName(key, generation), "/qps/", FormatQpNumber(number));
}

std::string FormatLeaseName(LeaseId id, Generation generation) {
  return absl::StrCat("leases/", id.value(), "@", FormatGeneration(generation));
}

std::string FormatSessionName(SessionId id, Generation generation) {
  return absl::StrCat("sessions/", id.value(), "@", FormatGeneration(generation));
}

std::string FormatQpNumber(uint32_t number) { return absl::StrFormat("0x%06x", number); }

}  // namespace qpbroker::core
