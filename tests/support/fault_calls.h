// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_SUPPORT_FAULT_CALLS_H_
#define QPBROKER_TESTS_SUPPORT_FAULT_CALLS_H_

// System calls that fail when a test says so. Works for this project's own code, which is linked
// statically: the test is linked with -Wl,--wrap for each call (FAULT_LINKOPTS in BUILD.bazel).

namespace qpbroker::testing {

enum class SystemCall { kSendmsg, kRecvmsg, kPipe2, kAccept4, kOpenat, kOpen, kEpollCtl, kFcntl };

// The n-th call of this kind from now fails with `errno_value`, in whatever thread (1: the next).
void FailNth(SystemCall call, int n, int errno_value);

// Calls off what has not happened yet. Whether the last FailNth happened.
bool ClearFault();

// "sendmsg"
const char* NameOf(SystemCall call);

// The process kills itself by SIGKILL at a point of its life: point 2n is before its n-th call of
// any kind above, counted from 0, point 2n+1 behind it. A negative number: never.
void KillAtPoint(int point);

}  // namespace qpbroker::testing

#endif  // QPBROKER_TESTS_SUPPORT_FAULT_CALLS_H_
