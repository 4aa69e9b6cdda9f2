// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_ERROR_H_
#define QPBROKER_ERROR_H_

// What went wrong, and the type that carries it. The library throws nothing.
//
//   qpbroker::Result<qpbroker::Identity> me = client->WhoAmI();
//   if (!me.ok()) {
//     if (me.error().reason == "DAEMON_UNREACHABLE") ...
//     std::cerr << me.error().ToString() << "\n";
//   }

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace qpbroker {

// The canonical codes of gRPC, with its numbers: what a program may do about an error.
enum class ErrorCode : int {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "NOT_FOUND" and the like; "UNKNOWN" for a number that is none of them.
std::string_view ErrorCodeName(ErrorCode code);

// One failure.
struct Error {
  ErrorCode code = ErrorCode::kUnknown;
  // A constant of the API, e.g. "QP_NOT_FOUND"; proto/qpbroker/v1/errors.proto lists them all.
  // Empty where the failure came from a daemon that gave none (an older one without the method:
  // code kUnimplemented).
  std::string reason = {};
  // What happened, for a person.
  std::string message = {};
  // What to do next, for a person; may be empty.
  std::string hint = {};
  // What it is about: "device", "qp_num", "field", "path", "call", "errno" and others.
  std::map<std::string, std::string> metadata = {};

  // One line: message, code, reason, metadata, hint.
  std::string ToString() const;
};

namespace internal {

// Prints `error` and aborts: the value of a failed Result was asked for.
[[noreturn]] void AbortOnError(const Error& error);
// Aborts: the error of a successful Result was asked for.
[[noreturn]] void AbortOnSuccess();

}  // namespace internal

// Either a value or an Error. Asking for the one that it does not hold aborts the process.
template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<T, Error>);

 public:
  // Implicit, so that a function can `return value;` or `return error;`.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return Checked(*this); }
  const T& value() const& { return Checked(*this); }
  T&& value() && { return std::move(Checked(*this)); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    const Error* error = std::get_if<1>(&state_);
    if (error == nullptr) internal::AbortOnSuccess();
    return *error;
  }

 private:
  template <typename Self>
  static auto& Checked(Self& self) {
    auto* value = std::get_if<0>(&self.state_);
    if (value == nullptr) internal::AbortOnError(*std::get_if<1>(&self.state_));
    return *value;
  }

  std::variant<T, Error> state_;
};

// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    if (!error_) internal::AbortOnSuccess();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace qpbroker

#endif  // QPBROKER_ERROR_H_
