// Reads files of the kernel. Not by std::ifstream, whose descriptor a program that the process starts meanwhile
// inherits.
#ifndef NVRAR_COMMON_READ_FILE_H
#define NVRAR_COMMON_READ_FILE_H

#include <string>

namespace nvrar {

// "" if the file cannot be read.
std::string read_file(const std::string& path);

}  // namespace nvrar

#endif  // NVRAR_COMMON_READ_FILE_H
