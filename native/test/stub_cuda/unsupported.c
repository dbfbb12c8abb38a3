// What else a library that is linked against a driver wants to find: it is there and refuses.
#include "stub.h"

#define UNSUPPORTED(function) \
  CUresult function(void);    \
  CUresult function(void) { return kNotSupported; }
#include "unsupported.h"
