// The last line of a test program: how much it has checked, and its time.
#ifndef NVRAR_TEST_SUPPORT_SUMMARY_H
#define NVRAR_TEST_SUPPORT_SUMMARY_H

namespace nvrar::test {

// Counts one rank's call whose outcome was compared with the expected one. Also works in processes that the tests have
// forked.
void count_checked_call();

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_SUMMARY_H
