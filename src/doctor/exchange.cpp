// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Telling by files.
#include "doctor/exchange.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace gdr::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(20);
// The round's name: what an earlier job left in the same place is none of this one's.
constexpr const char* kRound = "round";

std::string contents(const fs::path& file)
{
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
}

// Whoever sees the file sees all of it. False if there is no such directory.
bool write(const fs::path& file, const std::string& text)
{
    const fs::path unfinished = file.native() + ".part";
    std::ofstream stream(unfinished);
    stream << text;
    stream.close();
    std::error_code failed;
    fs::rename(unfinished, file, failed);
    return stream && !failed;
}

// New each time; the whole directory is read, as network file systems keep the absence of a name.
std::set<std::string> names_in(const fs::path& directory)
{
    std::set<std::string> names;
    std::error_code failed;
    for (fs::directory_iterator entry(directory, failed);
         !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
        names.insert(entry->path().filename());
    }
    return names;
}

std::string without_slashes(std::string name)
{
    std::ranges::replace(name, '/', '-');
    return name;
}

} // namespace

Exchange::Exchange(const fs::path& directory, const std::string& job,
                   std::chrono::milliseconds patience)
    : place_(fs::absolute(directory) / (".ucx-gdr-doctor-" + without_slashes(job))),
      patience_(patience)
{
}

std::vector<std::string> Exchange::gather(unsigned others) const
{
    const std::string round = std::to_string(std::random_device()());
    const std::string ending = "." + round;
    std::error_code failed;
    // What an earlier job left stays until the end: its round is replaced, and never missing, which
    // would tell the others that this job has read them.
    fs::create_directory(place_, failed);
    if (failed || !write(place_ / kRound, round)) {
        throw std::system_error(failed ? failed.value() : errno, std::generic_category(),
                                "ranks cannot tell each other by " + place_.native() +
                                    " (another directory: --job-dir)");
    }
    std::set<std::string> told;
    for (auto last = Clock::now(); told.size() < others && Clock::now() - last < patience_;) {
        std::this_thread::sleep_for(kPause);
        std::set<std::string> names = names_in(place_);
        std::erase_if(names, [&](const std::string& name) { return !name.ends_with(ending); });
        if (names.size() > told.size()) {
            told = names;
            last = Clock::now();
        }
    }
    std::vector<std::string> texts;
    texts.reserve(told.size());
    for (const std::string& name : told) {
        texts.push_back(contents(place_ / name));
    }
    fs::remove_all(place_, failed);
    return texts;
}

void Exchange::tell(unsigned rank, const std::string& text) const
{
    std::string told; // the round in which
    // The first one waits for others after this one has told.
    for (const auto begin = Clock::now(); Clock::now() - begin < patience_;) {
        const bool is_open = names_in(place_).contains(kRound);
        const std::string round = is_open ? contents(place_ / kRound) : "";
        if (!told.empty() && !is_open) {
            return;
        }
        if (!round.empty() && round != told &&
            write(place_ / (std::to_string(rank) + "." + round), text)) {
            told = round;
        }
        std::this_thread::sleep_for(kPause);
    }
    if (told.empty()) {
        throw std::runtime_error("rank " + std::to_string(rank) +
                                 " does not see the first rank's " + place_.native() +
                                 ": name a directory that all hosts share (--job-dir)");
    }
}

} // namespace gdr::doctor
