// What a test program says at its end: how much it has checked, in how long.
#ifndef NVRAR_TEST_SUPPORT_SUMMARY_H
#define NVRAR_TEST_SUPPORT_SUMMARY_H

namespace nvrar::test {

// One rank's call whose outcome was compared with what it must be. Also in processes that were forked by the tests.
void count_checked_call();

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_SUMMARY_H
