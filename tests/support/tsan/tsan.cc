// Makes the system's uninstrumented abseil visible to ThreadSanitizer.
//
// The thread sanitizer learns of a lock by intercepting pthread calls, or from annotations in the
// lock itself. absl::Mutex has them, but not in a library that was compiled without the sanitizer,
// as the distribution's is: every correct use would be reported as a race. So a tsan build defines
// abseil's entry points here. The executable comes first in the dynamic linker's order, so that our
// code and the shared libraries (gRPC too) all call these; each annotates and calls the library's
// own through RTLD_NEXT.
//
// A condition runs with the mutex held, but perhaps by another thread, inside its Unlock(). So a
// wait is annotated as unlock and lock, and each run of its condition as lock and unlock.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" const char* __tsan_default_suppressions() {
  return
#include "tests/support/tsan/tsan_supp.inc"
      ;  // NOLINT(whitespace/semicolon)
}

// Where the linker put the executable's own code.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace {

#define QPB_STRING_(x) #x
#define QPB_STRING(x) QPB_STRING_(x)

// The namespace of the installed abseil as the Itanium ABI mangles it.
std::string Namespace() {
#if ABSL_OPTION_USE_INLINE_NAMESPACE
  const char* name = QPB_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  return "4absl" + std::to_string(std::strlen(name)) + name;
#else
  return "4absl";
#endif
}

// The library's own function. `symbol` is its mangled name, with {} for abseil's namespace.
template <typename Function>
Function* Real(const std::string& symbol) {
  std::string mangled = symbol;
  for (size_t at = 0; (at = mangled.find("{}", at)) != std::string::npos;) {
    mangled.replace(at, 2, Namespace());
  }
  void* found = dlsym(RTLD_NEXT, mangled.c_str());
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

constexpr unsigned kRead = __tsan_mutex_read_lock;
constexpr unsigned kTry = __tsan_mutex_try_lock;
constexpr unsigned kTryFailed = __tsan_mutex_try_lock_failed;

void BeforeLock(void* mu, unsigned flags) { __tsan_mutex_pre_lock(mu, flags); }
void AfterLock(void* mu, unsigned flags) { __tsan_mutex_post_lock(mu, flags, 0); }
void BeforeUnlock(void* mu, unsigned flags) { __tsan_mutex_pre_unlock(mu, flags); }
void AfterUnlock(void* mu, unsigned flags) { __tsan_mutex_post_unlock(mu, flags); }

// A condition that tells the sanitizer that it runs under the mutex.
struct HeldCondition {
  absl::Mutex* mu;
  const absl::Condition* wanted;
};

bool EvalHeld(HeldCondition* held) {
  BeforeLock(held->mu, 0);
  AfterLock(held->mu, 0);
  const bool result = held->wanted->Eval();
  BeforeUnlock(held->mu, 0);
  AfterUnlock(held->mu, 0);
  return result;
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static const auto real = Real<void(Mutex*)>("_ZN{}5MutexD1Ev");
  const void* caller = __builtin_return_address(0);
  real(this);
  // Counts as a write to the mutex. Not for a library's own mutexes, whose owners may count their
  // references by atomics that the sanitizer does not see.
  if (caller >= &__executable_start && caller < &etext) __tsan_mutex_destroy(this, 0);
}

void Mutex::Lock() {
  static const auto real = Real<void(Mutex*)>("_ZN{}5Mutex4LockEv");
  BeforeLock(this, 0);
  real(this);
  AfterLock(this, 0);
}

void Mutex::Unlock() {
  static const auto real = Real<void(Mutex*)>("_ZN{}5Mutex6UnlockEv");
  BeforeUnlock(this, 0);
  real(this);
  AfterUnlock(this, 0);
}

bool Mutex::TryLock() {
  static const auto real = Real<bool(Mutex*)>("_ZN{}5Mutex7TryLockEv");
  BeforeLock(this, kTry);
  const bool locked = real(this);
  AfterLock(this, locked ? kTry : kTry | kTryFailed);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto real = Real<void(Mutex*)>("_ZN{}5Mutex10ReaderLockEv");
  BeforeLock(this, kRead);
  real(this);
  AfterLock(this, kRead);
}

void Mutex::ReaderUnlock() {
  static const auto real = Real<void(Mutex*)>("_ZN{}5Mutex12ReaderUnlockEv");
  BeforeUnlock(this, kRead);
  real(this);
  AfterUnlock(this, kRead);
}

void Mutex::Await(const Condition& cond) {
  static const auto real =
      Real<void(Mutex*, const Condition&)>("_ZN{}5Mutex5AwaitERKNS0_9ConditionE");
  HeldCondition held{this, &cond};
  BeforeUnlock(this, 0);
  AfterUnlock(this, 0);
  real(this, Condition(&EvalHeld, &held));
  BeforeLock(this, 0);
  AfterLock(this, 0);
}

bool Mutex::AwaitWithDeadline(const Condition& cond, Time deadline) {
  static const auto real = Real<bool(Mutex*, const Condition&, Time)>(
      "_ZN{}5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  HeldCondition held{this, &cond};
  BeforeUnlock(this, 0);
  AfterUnlock(this, 0);
  const bool result = real(this, Condition(&EvalHeld, &held), deadline);
  BeforeLock(this, 0);
  AfterLock(this, 0);
  return result;
}

void Mutex::LockWhen(const Condition& cond) {
  static const auto real =
      Real<void(Mutex*, const Condition&)>("_ZN{}5Mutex8LockWhenERKNS0_9ConditionE");
  HeldCondition held{this, &cond};
  real(this, Condition(&EvalHeld, &held));
  BeforeLock(this, 0);
  AfterLock(this, 0);
}

bool Mutex::LockWhenWithDeadline(const Condition& cond, Time deadline) {
  static const auto real = Real<bool(Mutex*, const Condition&, Time)>(
      "_ZN{}5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  HeldCondition held{this, &cond};
  const bool result = real(this, Condition(&EvalHeld, &held), deadline);
  BeforeLock(this, 0);
  AfterLock(this, 0);
  return result;
}

void CondVar::Wait(Mutex* mu) {
  static const auto real = Real<void(CondVar*, Mutex*)>("_ZN{}7CondVar4WaitEPNS0_5MutexE");
  BeforeUnlock(mu, 0);
  AfterUnlock(mu, 0);
  real(this, mu);
  BeforeLock(mu, 0);
  AfterLock(mu, 0);
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  static const auto real =
      Real<bool(CondVar*, Mutex*, Time)>("_ZN{}7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  BeforeUnlock(mu, 0);
  AfterUnlock(mu, 0);
  const bool result = real(this, mu, deadline);
  BeforeLock(mu, 0);
  AfterLock(mu, 0);
  return result;
}

void Notification::Notify() {
  static const auto real = Real<void(Notification*)>("_ZN{}12Notification6NotifyEv");
  __tsan_release(this);
  real(this);
}

void Notification::WaitForNotification() const {
  static const auto real =
      Real<void(const Notification*)>("_ZNK{}12Notification19WaitForNotificationEv");
  real(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto real = Real<bool(const Notification*, Duration)>(
      "_ZNK{}12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
