"""What the built-in shop sells: forty-two kinds of things in seven categories.

No two attributes of a kind are alike by the reward's measure, and no two values of an option are;
the tests say so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillwright.envs.webshop.product import CRUMB
from skillwright.envs.webshop.words import words


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing."""

    nouns: tuple[str, ...]  # what it is called; titles and customers use one or the other
    category: str  # which of the seven
    crumbs: str  # its place among the departments
    low: float  # the least that one costs, in dollars
    high: float  # the most
    attributes: tuple[str, ...]  # what one can be; each product is four of them
    option_names: tuple[str, ...] = ()  # its options, names of `OPTION_POOLS`


OPTION_POOLS: Final[Mapping[str, Sequence[str]]] = {
    "color": words(
        "black white navy red olive teal burgundy beige gray pink yellow purple brown orange "
        "charcoal lavender"
    ),
    "size": ("small", "medium", "large", "2xl", "3xl"),
    "shoe size": ("6", "7.5", "8", "9.5", "10", "11.5"),
    "length": ("3 feet", "6 feet", "10 feet"),
    "dimensions": ("2x3", "4x6", "5x8", "8x10", "9x12"),
    "scent": ("citrus", "cedar", "vanilla", "unscented", "jasmine", "eucalyptus"),
    "flavor": ("peanut butter", "cranberry", "honey", "ginger", "cinnamon", "blueberry"),
    "bundle": ("single", "twin pack", "family box", "value case"),
    "shade": ("nude", "coral", "plum", "bronze", "ruby", "mauve"),
    "switch": ("tactile", "linear", "clicky"),
    "capacity": ("32gb", "64gb", "128gb", "256gb"),
    "volume": ("12 oz", "20 oz", "32 oz", "40 oz"),
    "pieces": ("100", "250", "500", "2000"),
}


# Under a category and its department, for each kind: nouns | aisle | low-high | options, and then
# its attributes.
_SOLD: Final = """
# apparel, Clothing
hoodie, hooded sweatshirt | Sweats | 18-75 | color, size
machine washable, fleece lined, loose fit, quick drying, long sleeve, hand stitched,
wrinkle free, drawstring waist
midi dress, summer dress | Dresses | 20-90 | color, size
machine washable, short sleeve, elastic waist, wrinkle free, polyester spandex, v neck,
button closure, unlined
rain jacket, hiking jacket | Outerwear | 30-140 | color, size
water resistant, wind proof, light weight, fleece lined, hooded collar, zipper closure,
packable, reflective trim
pajama pants, lounge pants | Sleepwear | 14-60 | color, size
elastic waist, machine washable, button fly, brushed flannel, tapered leg, tagless,
moisture wicking, pocketed
polo shirt, golf shirt | Shirts | 15-65 | color, size
moisture wicking, short sleeve, wrinkle free, regular fit, button closure, organic cotton,
uv blocking, tagless
cardigan, knit sweater | Knitwear | 22-95 | color, size
hand wash, button closure, long sleeve, merino wool, ribbed hem, relaxed fit,
pill resistant, cable knit

# footwear, Shoes
running shoes, running sneakers | Athletic | 35-150 | color, shoe size
arch support, slip resistant, breathable mesh, memory foam, wide toe, reflective heel,
vegan friendly, quick lace
leather sandals, strap sandals | Sandals | 18-85 | color, shoe size
open toe, memory foam, rubber sole, ankle strap, slip resistant, hand stitched, cork
footbed, water friendly
ankle boots, chelsea boots | Boots | 40-160 | color, shoe size
side zipper, faux suede, rubber sole, slip resistant, block heel, waterproof, pull tab,
fleece lined
house slippers, bedroom slippers | Slippers | 12-55 | color, shoe size
memory foam, faux fur, closed back, machine washable, rubber sole, wool felt, odor
control, wide fit
walking shoes, slip-on shoes | Casual | 25-110 | color, shoe size
arch support, light weight, breathable mesh, rubber sole, elastic laces, removable insole,
shock absorbing, machine washable
penny loafers, dress loafers | Dress | 30-130 | color, shoe size
leather lining, rubber sole, memory foam, hand stitched, moc toe, tassel trim, scuff
resistant, padded collar

# electronics, Electronics
wireless headphones, over-ear headphones | Audio | 25-180 | color, bundle
noise cancelling, fast charging, foldable frame, long battery, water resistant, built in
microphone, low latency, memory foam
phone charger, wall charger | Power | 10-60 | color, length
fast charging, dual port, travel size, surge protected, braided cord, led indicator,
folding plug, heat resistant
bluetooth speaker, outdoor speaker | Audio | 20-140 | color, bundle
water resistant, stereo sound, long battery, hands free, shock proof, led indicator, bass
boost, carrying loop
mechanical keyboard, gaming keyboard | Computers | 35-170 | color, switch
hot swappable, rgb backlit, spill resistant, detachable cord, aluminum frame, compact
layout, programmable keys, quiet stabilizers
hdmi cable, video cable | Cables | 8-50 | length, color
gold plated, high speed, braided cord, ultra hd, double shielded, right angle, lifetime
warranty, locking tip
action camera, trail camera | Cameras | 40-190 | capacity, color
motion activated, night vision, water resistant, wide angle, image stabilized, time lapse,
easy mount, low power

# accessories, Accessories
laptop backpack, travel backpack | Luggage | 25-120 | color, size
water resistant, padded straps, anti theft, usb port, light weight, hidden pocket, luggage
strap, organizer panel
polarized sunglasses, aviator sunglasses | Eyewear | 12-90 | color, bundle
uv protection, scratch resistant, light weight, metal hinge, floating frame, case
included, mirrored lens, rubber grip
leather wallet, bifold wallet | Wallets | 15-80 | color, bundle
rfid blocking, slim profile, coin pocket, gift boxed, id window, hand stitched, money
clip, full grain
wool scarf, winter scarf | Scarves | 14-70 | color, bundle
hand wash, fringed hem, extra soft, lint free, reversible print, cable knit, gift boxed,
sun dyed
canvas belt, woven belt | Belts | 10-48 | color, size
metal buckle, quick release, stretch weave, travel friendly, nickel free, no holes, double
stitched, scratch resistant
sun hat, bucket hat | Hats | 12-58 | color, size
uv protection, wide brim, chin strap, packable, quick drying, adjustable band, mesh crown,
machine washable

# home_decor, Home
blackout curtains, bedroom curtains | Windows | 20-95 | color, dimensions
machine washable, thermal insulated, rod pocket, noise reducing, wrinkle free, energy
saving, grommet top, hem weighted
area rug, living room rug | Floors | 30-190 | color, dimensions
non slip, stain resistant, low pile, easy clean, hand woven, fade resistant, pet friendly,
spill proof
throw pillow, velvet cushion | Bedding | 12-55 | color, bundle
hidden zipper, machine washable, double sided, super soft, tasseled edge, pill resistant,
insert included, hand embroidered
table lamp, bedside lamp | Lighting | 22-130 | color, bundle
touch control, energy saving, usb port, dimmable glow, linen shade, easy assembly, eye
caring, pull chain
storage ottoman, tufted ottoman | Furniture | 35-180 | color, bundle
easy assembly, faux leather, space saving, solid wood, heavy duty, hinged lid, non slip,
memory foam
floating shelf, wall shelf | Storage | 16-90 | color, bundle
easy install, solid wood, heavy duty, space saving, rust proof, hidden bracket, moisture
proof, wall mounted

# beauty_health, Beauty
repair shampoo, daily shampoo | Hair | 8-48 | scent, bundle
sulfate free, cruelty free, color safe, paraben free, plant based, anti dandruff, travel
friendly, argan oil
night cream, face cream | Skin | 12-85 | scent, bundle
fragrance free, anti aging, cruelty free, dermatologist tested, hyaluronic acid, fast
absorbing, oil control, paraben free
matte lipstick, liquid lipstick | Makeup | 7-40 | shade, bundle
long lasting, cruelty free, smudge proof, highly pigmented, vitamin e, talc free, high
shine, transfer resistant
electric toothbrush, sonic toothbrush | Oral | 20-130 | color, bundle
soft bristles, pressure sensor, travel case, fast charging, plaque removing, smart timer,
bpa free, whisper quiet
body lotion, hand lotion | Body | 8-45 | scent, bundle
fast absorbing, dermatologist tested, shea butter, paraben free, non greasy, sensitive
skin, coconut oil, cruelty free
makeup brushes, eyeshadow brushes | Tools | 10-65 | color, bundle
cruelty free, soft bristles, easy clean, travel case, vegan friendly, wood handle, anti
shedding, dual ended

# other, Market
granola bars, oat bars | Food | 8-46 | flavor, bundle
gluten free, low sugar, high protein, non gmo, individually wrapped, dairy free, plant
based, high fiber
herbal tea, loose tea | Drinks | 7-40 | flavor, bundle
caffeine free, usda organic, kosher certified, resealable bag, fair trade, no additives,
hand picked, sugar free
dog bed, calming dog bed | Pets | 22-120 | color, size
machine washable, non slip, memory foam, water resistant, chew proof, orthopedic base,
raised rim, removable cover
water bottle, sports bottle | Sports | 10-55 | color, volume
bpa free, leak proof, double walled, wide mouth, dishwasher safe, carry loop, straw lid,
dent resistant
trail mix, roasted nuts | Food | 8-50 | flavor, bundle
non gmo, low sodium, gluten free, resealable bag, high protein, kosher certified, dry
roasted, no additives
jigsaw puzzle, wooden puzzle | Games | 9-60 | pieces, bundle
laser cut, matte finish, glare free, storage tray, thick board, poster included, recycled
board, dust free
"""


def _kinds(text: str) -> Iterator[Kind]:
    category = department = ""
    for paragraph in re.split(r"\n+(?=# |.*\|)", text.strip()):
        if paragraph.startswith("# "):
            category, department = _listed(paragraph.removeprefix("# "))
            continue
        head, _, attributes = paragraph.partition("\n")
        nouns, aisle, prices, options = (part.strip() for part in head.split("|"))
        low, high = prices.split("-")
        yield Kind(
            nouns=_listed(nouns),
            category=category,
            crumbs=f" {CRUMB} ".join((department, aisle, _listed(nouns)[0].title())),
            low=float(low),
            high=float(high),
            attributes=_listed(attributes.replace("\n", " ")),
            option_names=_listed(options),
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


KINDS: Final = tuple(_kinds(_SOLD))
