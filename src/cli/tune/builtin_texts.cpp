// The built-in prompts. They are made of parts, so that hundreds differ without hundreds being written down; the parts
// are combined along diagonals, so that neighbours share neither.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "cli/tune/texts.h"

namespace foresay::cli::tune {
namespace {

constexpr std::array<std::string_view, 20> kTasks{
    "reads a CSV file and returns the rows whose amount column is above a threshold",
    "merges two sorted lists into one sorted list without using a library sort",
    "checks whether a string of brackets (), [] and {} is balanced",
    "computes a moving average over the last k numbers of a stream",
    "finds the shortest path in a grid with walls by breadth-first search",
    "implements a cache with a fixed capacity that drops the least recently used entry",
    "parses a duration like 1h30m or 45s into seconds and rejects malformed input",
    "groups words that are anagrams of each other",
    "walks a folder and lists files that have the same contents",
    "retries a network call with exponential back-off and a limit of attempts",
    "converts a number into Roman numerals and back",
    "validates a credit card number with the Luhn check",
    "turns a flat list of records with parent ids into a tree",
    "counts the words of a text file and prints the ten most frequent ones",
    "implements a binary search tree with insert, find and in-order traversal",
    "computes the edit distance between two strings",
    "splits an amount of money into the fewest coins",
    "rotates a matrix of numbers by ninety degrees in place",
    "keeps a priority queue on top of an array-based heap",
    "formats a table of rows as aligned plain text columns"};
constexpr std::array<std::string_view, 5> kLanguages{"Python", "JavaScript", "C++", "Go", "Java"};

constexpr std::array<std::string_view, 12> kHeroes{
    "a lighthouse keeper who collects lost letters",    "a night-shift baker in a town without sunlight",
    "two sisters who inherit a broken printing press",  "a retired train driver who can't sleep",
    "a young beekeeper facing her first hard winter",   "a clockmaker who has stopped trusting clocks",
    "a translator who hears a word nobody taught her",  "a gardener who finds a door in a hedge",
    "a ferry captain on the last crossing of the year", "a piano tuner who visits an empty concert hall",
    "a mapmaker sent to draw a village that moves",     "a doctor on an island with three patients"};
constexpr std::array<std::string_view, 8> kPlaces{
    "on a stormy coast",           "in a mountain village after the first snow",
    "in a city built over canals", "during a long drought",
    "in a harbour at dawn",        "in the week before an election",
    "on the edge of a forest",     "in a house with too many rooms"};
constexpr std::array<std::string_view, 4> kForms{
    "Write the opening of a short story about {} {}.", "Write a quiet, descriptive scene with {} {}.",
    "Write a diary entry of {} {}.", "Continue in your own words: it is the tale of {} {}, and it begins"};

constexpr std::array<std::string_view, 20> kTopics{"learning to swim as an adult",
                                                   "why bread dough rises",
                                                   "choosing between renting and buying a home",
                                                   "how vaccines train the immune system",
                                                   "keeping houseplants alive through winter",
                                                   "preparing for a job interview",
                                                   "how noise-cancelling headphones work",
                                                   "the first month with a puppy",
                                                   "saving for an emergency fund",
                                                   "why the sky is blue and sunsets are red",
                                                   "making friends in a new city",
                                                   "how to read a nutrition label",
                                                   "training for a first ten-kilometre run",
                                                   "what causes tides",
                                                   "arguing less about chores with flatmates",
                                                   "how a bicycle stays upright",
                                                   "starting a vegetable garden on a balcony",
                                                   "the difference between weather and climate",
                                                   "sleeping better before early shifts",
                                                   "how search engines rank pages"};
constexpr std::array<std::string_view, 5> kAsks{
    "Hi! I have been thinking about {}. What should I know first?", "Can you explain {} as if I were twelve years old?",
    "Give me five practical tips about {}.",
    "My friend and I disagree about {}. What are the main points on each side?",
    "I have ten minutes: tell me the essentials of {}."};

constexpr std::array<std::string_view, 10> kPassages{
    "The town council voted on Tuesday to close the old stone bridge to cars from next spring. Engineers had found "
    "that "
    "two of its five arches are moving, and repairs would cost about four million. Shop owners on the east bank fear "
    "that customers will stay away, while a residents' group has asked for a car-free bridge for years. A temporary "
    "footbridge will be built first, and buses will take the northern road, which adds nine minutes to the trip.",
    "Researchers followed three hundred apple orchards for eight years and counted the insects that visited the "
    "blossoms. Orchards with strips of wild flowers had twice as many wild bees and yielded slightly larger apples. "
    "The "
    "effect was strongest in cold springs, when honey bees stay in their hives. The strips took up four per cent of "
    "the "
    "land, and most farmers recovered their cost after the third harvest.",
    "When the library moved into the former tram depot, nobody expected the tracks to become its main attraction. The "
    "architect kept them in the floor, and children now follow them from the picture books to the science shelves. "
    "Visits rose by forty per cent in the first year. The roof, however, leaks in heavy rain, and the upper reading "
    "room had to be closed twice in November.",
    "The company will replace passwords by hardware keys for all of its nine thousand employees by the end of June. In "
    "a test with the finance department the number of support calls fell by a third, but a tenth of the staff lost or "
    "forgot their key at least once. Spare keys will be kept at each reception. Contractors may keep using codes on "
    "their phones until the end of the year.",
    "A storm on Friday night cut the power of twenty-two thousand homes in the valley. Crews restored most lines "
    "within "
    "twelve hours, but three villages had to wait until Sunday because the road was blocked by fallen trees. The "
    "hospital ran on its generators without trouble. The operator says that buried cables would have prevented most of "
    "the failures and will present a plan with costs in March.",
    "The museum's new exhibition shows two hundred everyday objects from the last century, each with a recording of "
    "its "
    "former owner. A dented milk can, a travel iron and a letter opener tell of work, flight and ambition. Visitors "
    "stay for two hours on average, twice as long as usual. The curators collected the voices over six years, and some "
    "of the speakers died before the opening.",
    "After two dry summers the lake has lost a metre and a half of water. The ferry can no longer land at the southern "
    "pier, and the fish farm has moved its cages to deeper water. Hydrologists expect the level to recover only "
    "partly, "
    "since more water is now taken for irrigation. The three villages around the lake have agreed on a common quota "
    "for "
    "the first time.",
    "The orchestra has found a way to fill the hall on weekdays: concerts of fifty minutes that begin at half past "
    "five. Tickets cost little more than a cinema seat, and the programme is announced from the stage. Half of the "
    "audience had never bought a ticket before. The musicians, who were sceptical, now ask for a second series, though "
    "rehearsal time is short.",
    "Engineers have repaired the space probe from a distance of two hundred million kilometres. A valve of its cooling "
    "system had stuck, so they let the probe turn its back to the sun for nine days, until the metal shrank. The "
    "instruments work again, except for one camera. The fly-by of the comet will take place as planned in August, with "
    "a slightly larger distance.",
    "The school has given up homework in the first four years. Instead, pupils stay until three and work on tasks in "
    "small groups. Teachers report calmer mornings and fewer gaps, while some parents miss seeing what their children "
    "learn. Test results did not change in the first year. The school board wants to wait for a second year before "
    "other schools follow."};
constexpr std::array<std::string_view, 6> kSummaryAsks{
    "Summarise the following text in two sentences.",
    "List the key facts of this text as short bullet points.",
    "Write a headline and a one-paragraph summary.",
    "Explain this text to a ten-year-old in a few sentences.",
    "Which problems does this text mention, and what is done about them?",
    "Rewrite this as a short internal memo with the most important point first."};

constexpr std::array<std::string_view, 12> kNames{"Mara Lindqvist", "Tomas Okafor", "Ines Carvalho", "Henrik Vogel",
                                                  "Priya Raman",    "Lucas Moreau", "Sofia Petrova", "Daniel Abebe",
                                                  "Greta Nielsen",  "Omar Haddad",  "Yuki Tanaka",   "Elena Rossi"};
constexpr std::array<std::string_view, 10> kGoods{"desk lamps",    "water filters", "garden chairs", "bicycle tubes",
                                                  "paint rollers", "ceramic mugs",  "wool blankets", "tool cases",
                                                  "phone stands",  "notebooks"};
constexpr std::array<std::string_view, 8> kCities{"Bergen", "Porto",   "Graz",  "Tampere",
                                                  "Leuven", "Bologna", "Delft", "Aarhus"};
constexpr std::array<std::string_view, 12> kMonths{"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 4> kExtractAsks{
    "Extract the orders from this text as a JSON array of objects with the keys name, item, quantity, city, date and "
    "price. Answer with JSON only.",
    "Make a Markdown table of the orders in this text with the columns name, item, quantity, city, date and price.",
    "Write the orders of this text as CSV with a header line: name,item,quantity,city,date,price.",
    "List each order of this text as YAML with the keys name, item, quantity, city, date and price."};

template <size_t N>
std::string_view pick(const std::array<std::string_view, N>& parts, size_t i) {
    return parts[i % N];
}

std::string order_text(size_t i, size_t k) {
    const size_t n = 7 * i + 5 * k + i * k;
    return fmt::format("{} ordered {} {} for delivery to {} on {} {}, at {}.{:02} in all. ", pick(kNames, n + k),
                       3 + (n * 11) % 95, pick(kGoods, n / 3 + k), pick(kCities, n / 2 + i), 1 + n % 28,
                       pick(kMonths, n / 5 + k), 20 + (n * 37) % 900, (n * 13) % 100);
}

}  // namespace

const std::vector<std::string>& builtin_classes() {
    static const std::vector<std::string> kClasses{"code", "prose", "chat", "summary", "extraction"};
    return kClasses;
}

PromptPool builtin_prompts() {
    PromptPool pool;
    // Every pair of parts once: the second index moves with the first.
    for (size_t shift = 0; shift < kLanguages.size(); ++shift) {
        for (size_t i = 0; i < kTasks.size(); ++i) {
            pool.add("code", fmt::format("Write a {} function that {}. Add a short comment and an example of its use.",
                                         pick(kLanguages, i + shift), kTasks[i]));
        }
    }
    for (size_t shift = 0; shift < kPlaces.size(); ++shift) {
        for (size_t i = 0; i < kHeroes.size(); ++i) {
            pool.add("prose", fmt::format(fmt::runtime(pick(kForms, i + shift)), kHeroes[i], pick(kPlaces, i + shift)));
        }
    }
    for (size_t shift = 0; shift < kAsks.size(); ++shift) {
        for (size_t i = 0; i < kTopics.size(); ++i) {
            pool.add("chat", fmt::format(fmt::runtime(pick(kAsks, i + shift)), kTopics[i]));
        }
    }
    for (size_t shift = 0; shift < kSummaryAsks.size(); ++shift) {
        for (size_t i = 0; i < kPassages.size(); ++i) {
            pool.add("summary", fmt::format("{}\n\n{}", pick(kSummaryAsks, i + shift), kPassages[i]));
        }
    }
    constexpr size_t kExtractions = 100;
    constexpr size_t kOrders = 4;
    for (size_t i = 0; i < kExtractions; ++i) {
        std::string text(pick(kExtractAsks, i));
        text += "\n\n";
        for (size_t k = 0; k < kOrders; ++k) {
            text += order_text(i, k);
        }
        pool.add("extraction", std::move(text));
    }
    return pool;
}

}  // namespace foresay::cli::tune
