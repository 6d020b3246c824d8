// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The pipe behind a descriptor by which a program learns of events. The program closes the reading
// end once it has been given it.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace softmlx5 {

template <class Record>
class EventPipe {
  public:
    EventPipe() = default;
    EventPipe(const EventPipe&) = delete;
    EventPipe& operator=(const EventPipe&) = delete;
    ~EventPipe()
    {
        if (read_fd_ >= 0 && !given_) {
            close(read_fd_);
        }
        end();
    }

    // 0 or an errno.
    int open()
    {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0) {
            return errno;
        }
        read_fd_ = fds[0];
        write_fd_ = fds[1];
        return fcntl(write_fd_, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
    }
    int read_fd() const { return read_fd_; }
    int give_read_fd()
    {
        given_ = true;
        return read_fd_;
    }

    // The program closes its end: what is written from then on goes nowhere.
    void end()
    {
        if (write_fd_ >= 0) {
            close(write_fd_);
        }
        read_fd_ = write_fd_ = -1;
    }

    // A full pipe drops it; nobody reads there.
    void write(const Record& record)
    {
        static_cast<void>(!::write(write_fd_, &record, sizeof record));
    }

    // Takes out what has not been read of the records that match; returns how many.
    template <class Match>
    unsigned take_back(Match match)
    {
        // A description of its own: the program's may be one that blocks.
        const int fd = ::open(("/proc/self/fd/" + std::to_string(read_fd_)).c_str(),
                              O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        std::vector<Record> others;
        unsigned taken = 0;
        for (Record record; fd >= 0 && read(fd, &record, sizeof record) == sizeof record;) {
            if (match(record)) {
                ++taken;
            } else {
                others.push_back(record);
            }
        }
        for (const Record& record : others) {
            write(record);
        }
        if (fd >= 0) {
            close(fd);
        }
        return taken;
    }

  private:
    int read_fd_ = -1, write_fd_ = -1;
    bool given_ = false;
};

} // namespace softmlx5
