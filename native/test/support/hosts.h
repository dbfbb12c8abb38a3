// Several hosts on one machine.
#ifndef NVRAR_TEST_SUPPORT_HOSTS_H
#define NVRAR_TEST_SUPPORT_HOSTS_H

#include <vector>

#include "support/group.h"

namespace nvrar::test {

// Whether this process may make namespaces.
bool can_make_hosts();

// Runs the ranks of a group as processes of hosts that have so many each, in the order of ranks. A host is a process
// tree with namespaces of its own for pids and mounts, so nothing of another host's processes can be mapped. True if
// all ranks ended by themselves with no failed expectation. Call while no other thread runs.
bool run_on_hosts(const std::vector<int>& sizes, const ProcessBody& body, const GroupOptions& options = {});

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_HOSTS_H
