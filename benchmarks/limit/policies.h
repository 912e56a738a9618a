// The baseline policies (contract section 13).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "people.h"

constexpr int UNREACHED = 1 << 29;

// Distances to sources by breadth-first search, stamped, so that nothing is cleared between searches.
class Distances {
  public:
    explicit Distances(const Grid &grid) : grid_(grid), distance_(grid.cells), stamp_(grid.cells) {}

    int operator[](int cell) const { return stamp_[cell] == now_ ? distance_[cell] : UNREACHED; }

    // Search through open cells that do not burn (all open cells without a fire) until all people active are
    // reached; a cell is reached after every cell nearer than it.
    void search(const std::vector<int> &sources, const Fire *fire, const std::vector<Person> *people) {
        now_++;
        queue_.clear();
        wanted_ = 0;
        if (people) {
            is_wanted_.resize(distance_.size());
            for (const Person &person : *people)
                if (person.status == ACTIVE) is_wanted_[person.cell] = 1, wanted_++;
        }
        for (const int cell : sources)
            if (!fire || !fire->burns(cell)) reach(cell, 0, people);
        for (size_t i = 0; i < queue_.size() && (!people || wanted_); i++)
            for (int d = 1; d <= 4; d++) {
                const int near = queue_[i] + grid_.direction[d];
                if (grid_.open[near] && stamp_[near] != now_ && !(fire && fire->burns(near)))
                    reach(near, distance_[queue_[i]] + 1, people);
            }
        if (people)
            for (const Person &person : *people) is_wanted_[person.cell] = 0;
    }

    // The first direction to a cell one nearer; 0 where there is none.
    int descend(int cell) const {
        const int here = (*this)[cell];
        if (here == UNREACHED) return 0;
        for (int d = 1; d <= 4; d++)
            if ((*this)[cell + grid_.direction[d]] == here - 1) return d;
        return 0;
    }

  private:
    const Grid &grid_;
    std::vector<int> distance_, queue_;
    std::vector<uint32_t> stamp_;
    std::vector<uint8_t> is_wanted_;
    uint32_t now_ = 0;
    int wanted_ = 0;

    void reach(int cell, int distance, const std::vector<Person> *people) {
        stamp_[cell] = now_, distance_[cell] = distance;
        queue_.push_back(cell);
        if (people) wanted_ -= is_wanted_[cell];
    }
};

class Policy {
  public:
    virtual ~Policy() = default;
    virtual void reset() {}
    virtual void act(const Episode &episode, std::vector<int> &action) = 0;
};

class AlwaysStay : public Policy {
  public:
    void act(const Episode &, std::vector<int> &action) override { std::fill(action.begin(), action.end(), 0); }
};

class RandomLegal : public Policy {
  public:
    explicit RandomLegal(uint64_t seed) : stream_("policy/random-legal-v1", seed) {}

    void reset() override { stream_.position = 0; }

    void act(const Episode &episode, std::vector<int> &action) override {
        for (size_t i = 0; i < action.size(); i++) {
            const Person &person = episode.people[i];
            if (person.status != ACTIVE) continue;
            int choices[5] = {0}, count = 1;
            for (int d = 1; d <= 4; d++) {
                const int near = person.cell + episode.grid.direction[d];
                if (episode.grid.open[near] && !episode.fire.burns(near)) choices[count++] = d;
            }
            action[i] = choices[stream_.below(uint32_t(count))];
        }
    }

  private:
    Stream stream_;
};

class NearestExitGreedy : public Policy {
  public:
    void act(const Episode &episode, std::vector<int> &action) override {
        const Grid &grid = episode.grid;
        for (size_t i = 0; i < action.size(); i++) {
            const Person &person = episode.people[i];
            if (person.status != ACTIVE) continue;
            int goal = NOBODY;
            for (const int exit : grid.exit)
                if (goal == NOBODY || gap(grid, person.cell, exit) < gap(grid, person.cell, goal)) goal = exit;
            action[i] = 0;
            for (int d = 4; d >= 1; d--) {
                const int near = person.cell + grid.direction[d];
                if (grid.open[near] && !episode.fire.burns(near) &&
                    gap(grid, near, goal) < gap(grid, person.cell, goal))
                    action[i] = d;
            }
        }
    }

  private:
    static int gap(const Grid &grid, int a, int b) {
        return std::abs(a / grid.stride - b / grid.stride) + std::abs(a % grid.stride - b % grid.stride);
    }
};

class StaticShortestPath : public Policy {
  public:
    explicit StaticShortestPath(const Grid &grid) : way_(grid.cells) {
        Distances distances(grid);
        distances.search(grid.exit, nullptr, nullptr);
        for (const int cell : grid.inner) way_[cell] = distances.descend(cell);
    }

    void act(const Episode &episode, std::vector<int> &action) override {
        for (size_t i = 0; i < action.size(); i++) action[i] = way_[episode.people[i].cell];
    }

  private:
    std::vector<int> way_;
};

class FireAwareShortestPath : public Policy {
  public:
    explicit FireAwareShortestPath(const Grid &grid) : distances_(grid) {}

    void act(const Episode &episode, std::vector<int> &action) override {
        distances_.search(episode.grid.exit, &episode.fire, &episode.people);
        for (size_t i = 0; i < action.size(); i++)
            if (episode.people[i].status == ACTIVE) action[i] = distances_.descend(episode.people[i].cell);
    }

  private:
    Distances distances_;
};

class CongestionAware : public Policy {
  public:
    explicit CongestionAware(const Grid &grid)
        : distances_(grid.exit.size(), Distances(grid)), taken_(grid.cells), load_(grid.exit.size()) {}

    void act(const Episode &episode, std::vector<int> &action) override {
        const Grid &grid = episode.grid;
        for (size_t e = 0; e < distances_.size(); e++)
            distances_[e].search({grid.exit[e]}, &episode.fire, &episode.people);
        order_.clear();
        for (size_t i = 0; i < action.size(); i++) {
            action[i] = 0;
            if (episode.people[i].status != ACTIVE) continue;
            int least = UNREACHED;
            for (const Distances &distances : distances_) least = std::min(least, distances[episode.people[i].cell]);
            if (least < UNREACHED) order_.emplace_back(least, int(i));
        }
        std::sort(order_.begin(), order_.end());
        std::fill(load_.begin(), load_.end(), 0);
        for (const auto &[least, i] : order_) {
            const int cell = episode.people[i].cell;
            size_t chosen = 0;
            int cost = UNREACHED;
            for (size_t e = 0; e < distances_.size(); e++)
                if (distances_[e][cell] < UNREACHED && distances_[e][cell] + load_[e] < cost)
                    chosen = e, cost = distances_[e][cell] + load_[e];
            load_[chosen]++;
            for (int d = 1; d <= 4 && !action[i]; d++) {
                const int near = cell + grid.direction[d];
                if (!taken_[near] && distances_[chosen][near] == distances_[chosen][cell] - 1) action[i] = d;
            }
            if (action[i]) taken_[cell + grid.direction[action[i]]] = 1;
        }
        for (const auto &[least, i] : order_) taken_[episode.people[i].cell + grid.direction[action[i]]] = 0;
    }

  private:
    std::vector<Distances> distances_;
    std::vector<uint8_t> taken_;
    std::vector<int> load_;
    std::vector<std::pair<int, int>> order_;
};

inline std::unique_ptr<Policy> make_policy(const std::string &name, const Grid &grid, uint64_t policy_seed) {
    if (name == "always-stay-v1") return std::make_unique<AlwaysStay>();
    if (name == "random-legal-v1") return std::make_unique<RandomLegal>(policy_seed);
    if (name == "nearest-exit-greedy-v1") return std::make_unique<NearestExitGreedy>();
    if (name == "static-shortest-path-v1") return std::make_unique<StaticShortestPath>(grid);
    if (name == "fire-aware-shortest-path-v1") return std::make_unique<FireAwareShortestPath>(grid);
    if (name == "congestion-aware-v1") return std::make_unique<CongestionAware>(grid);
    return nullptr;
}
