#pragma once

#include <string_view>

// The words of the carrier sentences. German forms are given in full.
namespace nmt::numbers {

struct Noun {
  std::string_view en, en_plural;
  char gender;  // m, f, n
  std::string_view de, de_plural, de_dative_plural;
};

struct Person {
  std::string_view en;
  char gender;             // of "his" or "her"
  std::string_view de[3];  // nominative, accusative, dative
};

struct Fixed {  // used in one form only
  std::string_view en, de;
};

struct Adjective {
  std::string_view en, de_stem;
};

struct Unit {  // a noun of measure with the range of numbers that suits it
  Noun noun;
  int low, high;
};

inline constexpr Noun kThings[] = {
    {"apple", "apples", 'm', "Apfel", "Äpfel", "Äpfeln"},
    {"egg", "eggs", 'n', "Ei", "Eier", "Eiern"},
    {"book", "books", 'n', "Buch", "Bücher", "Büchern"},
    {"chair", "chairs", 'm', "Stuhl", "Stühle", "Stühlen"},
    {"table", "tables", 'm', "Tisch", "Tische", "Tischen"},
    {"bottle", "bottles", 'f', "Flasche", "Flaschen", "Flaschen"},
    {"ticket", "tickets", 'f', "Karte", "Karten", "Karten"},
    {"picture", "pictures", 'n', "Bild", "Bilder", "Bildern"},
    {"letter", "letters", 'm', "Brief", "Briefe", "Briefen"},
    {"stamp", "stamps", 'f', "Briefmarke", "Briefmarken", "Briefmarken"},
    {"box", "boxes", 'f', "Kiste", "Kisten", "Kisten"},
    {"lamp", "lamps", 'f', "Lampe", "Lampen", "Lampen"},
    {"key", "keys", 'm', "Schlüssel", "Schlüssel", "Schlüsseln"},
    {"plate", "plates", 'm', "Teller", "Teller", "Tellern"},
    {"cup", "cups", 'f', "Tasse", "Tassen", "Tassen"},
    {"glass", "glasses", 'n', "Glas", "Gläser", "Gläsern"},
    {"shirt", "shirts", 'n', "Hemd", "Hemden", "Hemden"},
    {"flower", "flowers", 'f', "Blume", "Blumen", "Blumen"},
    {"coat", "coats", 'm', "Mantel", "Mäntel", "Mänteln"},
    {"bicycle", "bicycles", 'n', "Fahrrad", "Fahrräder", "Fahrrädern"},
    {"pencil", "pencils", 'm', "Bleistift", "Bleistifte", "Bleistiften"},
    {"computer", "computers", 'm', "Computer", "Computer", "Computern"},
    {"newspaper", "newspapers", 'f', "Zeitung", "Zeitungen", "Zeitungen"},
    {"ball", "balls", 'm', "Ball", "Bälle", "Bällen"},
    {"knife", "knives", 'n', "Messer", "Messer", "Messern"},
    {"clock", "clocks", 'f', "Uhr", "Uhren", "Uhren"},
};

inline constexpr Noun kPeople[] = {
    {"visitor", "visitors", 'm', "Besucher", "Besucher", "Besuchern"},
    {"pupil", "pupils", 'm', "Schüler", "Schüler", "Schülern"},
    {"guest", "guests", 'm', "Gast", "Gäste", "Gästen"},
    {"worker", "workers", 'm', "Arbeiter", "Arbeiter", "Arbeitern"},
    {"tourist", "tourists", 'm', "Tourist", "Touristen", "Touristen"},
    {"passenger", "passengers", 'm', "Fahrgast", "Fahrgäste", "Fahrgästen"},
    {"child", "children", 'n', "Kind", "Kinder", "Kindern"},
    {"soldier", "soldiers", 'm', "Soldat", "Soldaten", "Soldaten"},
    {"student", "students", 'm', "Student", "Studenten", "Studenten"},
    {"player", "players", 'm', "Spieler", "Spieler", "Spielern"},
};

inline constexpr Noun kSolids[] = {
    {"kilogram", "kilograms", 'n', "Kilogramm", "Kilogramm", "Kilogramm"},
    {"gram", "grams", 'n', "Gramm", "Gramm", "Gramm"},
    {"tonne", "tonnes", 'f', "Tonne", "Tonnen", "Tonnen"},
    {"bag", "bags", 'm', "Sack", "Säcke", "Säcken"},
};
inline constexpr Noun kLiquids[] = {
    {"litre", "litres", 'm', "Liter", "Liter", "Litern"},
    {"bottle", "bottles", 'f', "Flasche", "Flaschen", "Flaschen"},
    {"barrel", "barrels", 'n', "Fass", "Fässer", "Fässern"},
};

inline constexpr Fixed kSolidStuff[] = {{"flour", "Mehl"}, {"sugar", "Zucker"}, {"rice", "Reis"},
                                        {"salt", "Salz"},  {"cheese", "Käse"},  {"coffee", "Kaffee"},
                                        {"sand", "Sand"},  {"wheat", "Weizen"}};
inline constexpr Fixed kLiquidStuff[] = {{"milk", "Milch"}, {"water", "Wasser"}, {"oil", "Öl"},
                                         {"wine", "Wein"},  {"beer", "Bier"},    {"juice", "Saft"}};

inline constexpr Adjective kAdjectives[] = {{"new", "neu"},         {"old", "alt"},     {"small", "klein"},
                                            {"large", "groß"},      {"red", "rot"},     {"white", "weiß"},
                                            {"beautiful", "schön"}, {"cheap", "billig"}};

inline constexpr Person kPersons[] = {
    {"Anna", 'f', {"Anna", "Anna", "Anna"}},
    {"Peter", 'm', {"Peter", "Peter", "Peter"}},
    {"Maria", 'f', {"Maria", "Maria", "Maria"}},
    {"Thomas", 'm', {"Thomas", "Thomas", "Thomas"}},
    {"Julia", 'f', {"Julia", "Julia", "Julia"}},
    {"David", 'm', {"David", "David", "David"}},
    {"Laura", 'f', {"Laura", "Laura", "Laura"}},
    {"Martin", 'm', {"Martin", "Martin", "Martin"}},
    {"Emma", 'f', {"Emma", "Emma", "Emma"}},
    {"Paul", 'm', {"Paul", "Paul", "Paul"}},
    {"my brother", 'm', {"mein Bruder", "meinen Bruder", "meinem Bruder"}},
    {"my sister", 'f', {"meine Schwester", "meine Schwester", "meiner Schwester"}},
    {"my uncle", 'm', {"mein Onkel", "meinen Onkel", "meinem Onkel"}},
    {"our neighbour", 'm', {"unser Nachbar", "unseren Nachbarn", "unserem Nachbarn"}},
    {"the old woman", 'f', {"die alte Frau", "die alte Frau", "der alten Frau"}},
    {"the young man", 'm', {"der junge Mann", "den jungen Mann", "dem jungen Mann"}},
    {"the baker", 'm', {"der Bäcker", "den Bäcker", "dem Bäcker"}},
    {"the farmer", 'm', {"der Bauer", "den Bauern", "dem Bauern"}},
    {"the queen", 'f', {"die Königin", "die Königin", "der Königin"}},
    {"the nurse", 'f', {"die Krankenschwester", "die Krankenschwester", "der Krankenschwester"}},
};

inline constexpr Fixed kBuildings[] = {
    {"the museum", "das Museum"},     {"the library", "die Bibliothek"},       {"the bank", "die Bank"},
    {"the post office", "die Post"},  {"the swimming pool", "das Schwimmbad"}, {"the restaurant", "das Restaurant"},
    {"the pharmacy", "die Apotheke"}, {"the town hall", "das Rathaus"},
};

inline constexpr Fixed kEvents[] = {
    {"the meeting", "die Besprechung"},
    {"the concert", "das Konzert"},
    {"the lecture", "der Vortrag"},
    {"the exam", "die Prüfung"},
    {"the race", "das Rennen"},
    {"the party", "die Feier"},
    {"the football match", "das Fußballspiel"},
    {"the guided tour", "die Führung"},
};

inline constexpr Fixed kVehicles[] = {
    {"the train", "der Zug"},
    {"the bus", "der Bus"},
    {"the ferry", "die Fähre"},
    {"the express train", "der Schnellzug"},
    {"the night train", "der Nachtzug"},
};

inline constexpr Fixed kPlaces[] = {
    {"at the market", "auf dem Markt"},      {"in the kitchen", "in der Küche"}, {"at the station", "am Bahnhof"},
    {"in the garden", "im Garten"},          {"at school", "in der Schule"},     {"in the office", "im Büro"},
    {"in the library", "in der Bibliothek"}, {"in the museum", "im Museum"},     {"at the hotel", "im Hotel"},
    {"in the village", "im Dorf"},           {"at the airport", "am Flughafen"}, {"in the park", "im Park"},
    {"in the factory", "in der Fabrik"},     {"at the theatre", "im Theater"},   {"in the cellar", "im Keller"},
    {"at the harbour", "im Hafen"},
};

inline constexpr Fixed kShops[] = {
    {"at the market", "auf dem Markt"},         {"in the shop", "im Laden"},
    {"in the department store", "im Kaufhaus"}, {"in the supermarket", "im Supermarkt"},
    {"on the internet", "im Internet"},         {"in the old town", "in der Altstadt"},
};

inline constexpr Fixed kCities[] = {
    {"Berlin", "Berlin"}, {"Hamburg", "Hamburg"}, {"Munich", "München"},  {"Vienna", "Wien"},
    {"Cologne", "Köln"},  {"Zurich", "Zürich"},   {"London", "London"},   {"Paris", "Paris"},
    {"Rome", "Rom"},      {"Prague", "Prag"},     {"Dresden", "Dresden"}, {"Geneva", "Genf"},
};

inline constexpr Fixed kWeekdays[] = {{"Monday", "Montag"},       {"Tuesday", "Dienstag"}, {"Wednesday", "Mittwoch"},
                                      {"Thursday", "Donnerstag"}, {"Friday", "Freitag"},   {"Saturday", "Samstag"},
                                      {"Sunday", "Sonntag"}};

inline constexpr Fixed kMonths[] = {{"January", "Januar"},  {"February", "Februar"},  {"March", "März"},
                                    {"April", "April"},     {"May", "Mai"},           {"June", "Juni"},
                                    {"July", "Juli"},       {"August", "August"},     {"September", "September"},
                                    {"October", "Oktober"}, {"November", "November"}, {"December", "Dezember"}};

inline constexpr Noun kMinute = {"minute", "minutes", 'f', "Minute", "Minuten", "Minuten"};
inline constexpr Noun kHour = {"hour", "hours", 'f', "Stunde", "Stunden", "Stunden"};
inline constexpr Noun kDay = {"day", "days", 'm', "Tag", "Tage", "Tagen"};
inline constexpr Noun kWeek = {"week", "weeks", 'f', "Woche", "Wochen", "Wochen"};
inline constexpr Noun kMonth = {"month", "months", 'm', "Monat", "Monate", "Monaten"};
inline constexpr Noun kYear = {"year", "years", 'n', "Jahr", "Jahre", "Jahren"};

inline constexpr Noun kMetre = {"metre", "metres", 'm', "Meter", "Meter", "Metern"};

inline constexpr Unit kDurations[] = {{kMinute, 2, 130}, {kHour, 1, 48}};
inline constexpr Unit kSpans[] = {{kDay, 1, 250}, {kWeek, 1, 70}, {kMonth, 1, 48}, {kYear, 1, 65}};
inline constexpr Unit kDistances[] = {
    {kMetre, 21, 990},
    {{"kilometre", "kilometres", 'm', "Kilometer", "Kilometer", "Kilometern"}, 1, 990},
    {{"mile", "miles", 'f', "Meile", "Meilen", "Meilen"}, 1, 400}};

inline constexpr Noun kEuro = {"euro", "euros", 'm', "Euro", "Euro", "Euro"};
inline constexpr Noun kDollar = {"dollar", "dollars", 'm', "Dollar", "Dollar", "Dollar"};
inline constexpr Noun kCent = {"cent", "cents", 'm', "Cent", "Cent", "Cent"};
inline constexpr Noun kPercent = {"percent", "percent", 'n', "Prozent", "Prozent", "Prozent"};
inline constexpr Noun kDegree = {"degree", "degrees", 'm', "Grad", "Grad", "Grad"};
inline constexpr Noun kPage = {"page", "pages", 'f', "Seite", "Seiten", "Seiten"};
inline constexpr Noun kVote = {"vote", "votes", 'f', "Stimme", "Stimmen", "Stimmen"};
inline constexpr Noun kPassenger = {"passenger", "passengers", 'm', "Fahrgast", "Fahrgäste", "Fahrgästen"};
inline constexpr Noun kWorker = {"worker", "workers", 'm', "Arbeiter", "Arbeiter", "Arbeitern"};
inline constexpr Noun kHuman = {"person", "people", 'm', "Mensch", "Menschen", "Menschen"};
inline constexpr Noun kKilogram = kSolids[0];

inline constexpr Fixed kApproximately[] = {
    {"about", "etwa"}, {"almost", "fast"}, {"more than", "mehr als"}, {"at least", "mindestens"}, {"exactly", "genau"}};

// The number behind one of these is a name: "room 7".
inline constexpr std::string_view kLabels[] = {"room", "page", "platform", "line", "flight", "number"};

}  // namespace nmt::numbers
