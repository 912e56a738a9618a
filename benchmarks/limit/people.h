// People and the rules of one step (contract section 5).
#pragma once

#include "fire.h"

enum Status { ACTIVE, EVACUATED, CASUALTY };
enum Cause { NO_CASUALTY, ENTERED_FIRE, FIRE_SPREAD };

struct Person {
    int cell;
    int status = ACTIVE, resolution_step = 0, exit = NOBODY, cause = NO_CASUALTY, cells_moved = 0;
};

class Episode {
  public:
    const Scenario &scenario;
    const Grid &grid;
    Fire fire;
    std::vector<Person> people;
    int steps = 0, active = 0;

    Episode(const Scenario &scenario, const Grid &grid, uint64_t seed)
        : scenario(scenario), grid(grid), fire(scenario, grid, seed), held_(grid.cells, NOBODY),
          claimed_(grid.cells, NOBODY) {
        for (const int cell : grid.person) {
            held_[cell] = int(people.size());
            people.push_back(Person{cell});
        }
        active = int(people.size());
        target_.resize(people.size());
        moves_.resize(people.size());
    }

    bool done() const { return active == 0 || steps == scenario.max_steps; }

    // Make a step with everybody's action, 0 to 4 in action order.
    void step(const std::vector<int> &action) {
        steps++;
        decide(action);
        move();
        leave();
        fire.step(steps);
        lose();
    }

  private:
    enum Moves : uint8_t { STAYS, MOVES, UNDECIDED, IN_CHAIN };

    std::vector<int> held_;     // [cells], who is on a cell
    std::vector<int> claimed_;  // [cells], the lowest ID that goes for it in this step
    std::vector<int> target_;
    std::vector<Moves> moves_;
    std::vector<uint8_t> stood_in_fire_;

    void decide(const std::vector<int> &action) {
        for (size_t i = 0; i < people.size(); i++) {
            moves_[i] = STAYS;
            if (people[i].status != ACTIVE || action[i] == 0) continue;
            const int target = target_[i] = people[i].cell + grid.direction[action[i]];
            if (!grid.open[target] || (scenario.fire_blocks && fire.burns(target))) continue;
            if (claimed_[target] != NOBODY) continue;  // blocked_conflict: lower IDs come first
            claimed_[target] = int(i);
            moves_[i] = UNDECIDED;
        }
        for (size_t i = 0; i < people.size(); i++)
            if (moves_[i] == UNDECIDED) follow(int(i));
        for (size_t i = 0; i < people.size(); i++)
            if (moves_[i] != STAYS || (people[i].status == ACTIVE && action[i])) claimed_[target_[i]] = NOBODY;
    }

    // Whether `i` moves: when nobody holds its target, or the holder moves; nobody in a closed chain does.
    bool follow(int i) {
        if (moves_[i] == IN_CHAIN) return false;
        if (moves_[i] == UNDECIDED) {
            moves_[i] = IN_CHAIN;
            const int holder = held_[target_[i]];
            moves_[i] = holder == NOBODY || follow(holder) ? MOVES : STAYS;
        }
        return moves_[i] == MOVES;
    }

    void move() {
        for (size_t i = 0; i < people.size(); i++)
            if (moves_[i] == MOVES) held_[people[i].cell] = NOBODY;
        for (size_t i = 0; i < people.size(); i++)
            if (moves_[i] == MOVES) {
                people[i].cell = target_[i];
                people[i].cells_moved++;
                held_[people[i].cell] = int(i);
            }
    }

    void resolve(Person &person, int status, int exit, int cause) {
        person.status = status, person.exit = exit, person.cause = cause, person.resolution_step = steps;
        held_[person.cell] = NOBODY;
        active--;
    }

    void leave() {
        for (Person &person : people)
            if (person.status == ACTIVE && grid.exit_of[person.cell] != NOBODY && !fire.burns(person.cell))
                resolve(person, EVACUATED, grid.exit_of[person.cell], NO_CASUALTY);
    }

    void lose() {
        for (Person &person : people)
            if (person.status == ACTIVE && fire.burns(person.cell)) {
                const bool entered = fire.ignition_step[person.cell] < uint32_t(steps);
                resolve(person, CASUALTY, NOBODY, entered ? ENTERED_FIRE : FIRE_SPREAD);
            }
    }
};
