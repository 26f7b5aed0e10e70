"""The seven categories that skills and reports go by, read from what the customer asks for.

Only whole words count. The first clause that names something decides, and within it the last
name, because English puts the thing last (a ``shoe rack`` is a rack). Two words beat one (``ice
cream``).
"""

import re
from typing import Final

CATEGORIES: Final = (
    "apparel",
    "footwear",
    "electronics",
    "accessories",
    "home_decor",
    "beauty_health",
    "other",
)

_WORDS: Final = {
    "apparel": "apparel blazer blouse bra bras cardigan clothing coat coats costume dress dresses "
    "gown hoodie hoodies jacket jackets jeans jumpsuit kimono leggings lingerie nightgown outfit "
    "overalls pajama pajamas pants polo pullover robe shirt shirts shorts skirt skirts sleepwear "
    "suit sweater sweaters sweatpants sweatshirt swimsuit swimwear tee tees top tops trousers "
    "tuxedo underwear vest t-shirt t-shirts tunic",
    "footwear": "boot boots clog clogs flats flip-flops footwear heels loafer loafers moccasins "
    "pumps sandal sandals shoe shoes slipper slippers sneaker sneakers trainers",
    "electronics": "adapter adapters antenna battery batteries cable cables camera cameras charger "
    "chargers computer controller desktop drone earbuds earphones electronics hdmi headphone "
    "headphones headset ipad iphone keyboard keyboards laptop microphone monitor mouse phone "
    "printer projector radio receiver router smartphone smartwatch soundbar speaker speakers "
    "tablet television tripod tv usb webcam",
    "accessories": "accessories backpack backpacks bag bags band bands belt belts bracelet "
    "bracelets cap caps clutch earrings eyewear glove gloves handbag hat hats jewelry necklace "
    "pendant purse ring rings scarf scarves sunglasses tie tote umbrella wallet wallets watch "
    "watches wristband sock socks",
    "home_decor": "bed bedding bench blanket blinds bookcase bookshelf cabinet candle candles "
    "carpet chair chairs chandelier comforter couch curtain curtains cushion cushions decor desk "
    "dresser duvet furniture lamp lamps lantern light lights mattress mirror nightstand organizer "
    "ottoman pantry pillow pillows pillowcase poster rack rug rugs sconce shelf shelves sofa stool "
    "table tablecloth tapestry vanity vase wallpaper",
    "beauty_health": "beauty brush brushes comb concealer conditioner cosmetics cream deodorant "
    "eyeliner eyelashes eyeshadow floss foundation fragrance lipstick lotion makeup mascara "
    "massager moisturizer mouthwash nail nails perfume razor serum shampoo skincare soap sunscreen "
    "toothbrush toothbrushes toothpaste trimmer tweezers vitamin vitamins wig",
    "other": "bars bar cookies chips coffee snack snacks tea chocolate candy cereal sauce nuts mix "
    "maker bearing abrasive bottle puzzle toy toys notebook leash",
}
_PHRASES: Final = {
    "other": "ice cream, dog bed, dog beds, pet bed, trail mix, water bottle, whipped cream, "
    "granola bars",
    "home_decor": "wall art, table lamp, table top",
    "electronics": "phone case, cell phone, smart watch, smart watches",
    "accessories": "watch band, watch bands, laptop bag",
    "beauty_health": "body wash, hair mask, face mask, essential oil, shower cap",
    "apparel": "tank top",
}
_CATEGORY_OF: Final = {
    **{word: category for category, words in _WORDS.items() for word in words.split()},
    **{pair: category for category, pairs in _PHRASES.items() for pair in pairs.split(", ")},
}

_CLAUSE_END: Final = re.compile(
    r"[,.;:!?()]|\b(?:with|without|that|which|who|for|in|on|of|because|and|made|to go|size)\b"
)
_WORD: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")


def category_of(text: str) -> str:
    """Return the category that an instruction asks for; ``other`` where no known thing is named."""
    return named_category(text) or "other"


def named_category(text: str) -> str:
    """Return the category of the first clause that names a known thing; ``""`` where none does."""
    for clause in _CLAUSE_END.split(text.lower()):
        named = _last_named(_WORD.findall(clause))
        if named:
            return named
    return ""


def _last_named(words: list[str]) -> str:
    for end in range(len(words), 0, -1):
        for size in (2, 1):
            found = _CATEGORY_OF.get(" ".join(words[max(0, end - size) : end]))
            if found:
                return found
    return ""
